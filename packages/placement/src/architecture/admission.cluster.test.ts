/**
 * About which pods and DaemonSets a real API server asks: nobody answers, so what it asks about it refuses. A cluster of
 * its own, as its webhooks are about all pods. All are only ever created in a dry run, which goes through admission too.
 */
import { SYSTEM_NAMESPACES } from "@berth/host";
import {
  daemonSets,
  isApiError,
  type KubeClient,
  mutatingWebhookConfigurations,
  namespaces,
  type Pod,
  type PodSpec,
  pods,
  type Toleration,
} from "@berth/kube";
import { aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { configurationOf } from "../node/testing/configuration.ts";
import { architectureAdmission } from "./admission.ts";
import { type PolicyInit, policiesOf } from "./testing/policies.ts";
import { sightOf } from "./testing/sight.ts";

let cluster: TestCluster;
let client: KubeClient;
const OWN = "berth-system";
const labelled = {
  [OWN]: {},
  plain: {},
  ignored: { "berth.dev/architecture": "ignore" },
  selected: { team: "a", zone: "1" },
  excluded: {},
};

beforeAll(async () => {
  cluster = await sharedTestCluster();
  client = cluster.client;
  for (const [name, labels] of Object.entries(labelled)) {
    await client.create(namespaces, { metadata: { name, labels } });
  }
});

const NOBODY = "https://127.0.0.1:1";
const all = [...SYSTEM_NAMESPACES, ...Object.keys(labelled)];

const inZone = { key: "zone", operator: "In", values: ["1", "2"] } as const;
const daemonSetOwner = { apiVersion: "apps/v1", kind: "DaemonSet", name: "ds", uid: "u" };

describe("the webhook for pods on an API server", () => {
  it.each<[string, Readonly<Record<string, PolicyInit>>, readonly string[]]>([
    [
      "with taints: of every namespace but those of the system and Berth's own",
      { p: {} },
      ["excluded", "ignored", "plain", "selected"],
    ],
    [
      "without: not of namespaces that are opted out",
      { p: { mode: "Affinity", excludedNamespaces: ["excluded"] } },
      ["plain", "selected"],
    ],
    [
      "without: only of those that the one policy selects",
      {
        p: {
          mode: "Affinity",
          namespaceSelector: { matchLabels: { team: "a" }, matchExpressions: [inZone] },
        },
      },
      ["selected"],
    ],
  ])("is asked %s", async (_, policies, expected) => {
    await using _webhooks = await inForce(policies);
    const asked: string[] = [];
    for (const namespace of all) if (await isAsked(aPod("p").in(namespace).build())) asked.push(namespace);
    expect(asked.sort()).toEqual(expected);
  });

  it("is not asked about pods that are past deciding", async () => {
    await using _webhooks = await inForce({ p: {} });
    const pod = aPod("p").in("plain");
    const ofOwner = (controller: boolean, kind = "DaemonSet"): Pod => {
      const { metadata, ...rest } = pod.build();
      const ownerReferences = [{ ...daemonSetOwner, kind, controller }];
      return { ...rest, metadata: { ...metadata, ownerReferences } };
    };
    expect(await isAsked(pod.build())).toBe(true);
    expect(await isAsked(pod.on("n1").build())).toBe(false);
    expect(await isAsked(pod.on("n1").annotated({ "kubernetes.io/config.mirror": "x" }).build())).toBe(false);
    expect(await isAsked(ofOwner(true))).toBe(false);
    expect(await isAsked(ofOwner(false))).toBe(true);
    expect(await isAsked(ofOwner(true, "ReplicaSet"))).toBe(true);
  });

  it("is asked about pods that a policy selects, when all of them select some", async () => {
    await using _webhooks = await inForce({
      p: { mode: "Affinity", podSelector: { matchLabels: { app: "a" } } },
      q: { mode: "Affinity", podSelector: { matchExpressions: [{ key: "tier", operator: "Exists" }] } },
    });
    const pod = aPod("p").in("plain");
    const asked: boolean[] = [];
    for (const labels of [{ app: "a" }, { tier: "" }, { app: "b" }]) {
      asked.push(await isAsked(pod.labelled(labels).build()));
    }
    expect([...asked, await isAsked(pod.build())]).toEqual([true, true, false, false]);
  });

  it("lets pods in while nobody answers, unless told otherwise", async () => {
    await using _webhooks = await inForce({ p: {} }, "Ignore");
    expect(await isAsked(aPod("p").in("plain").build())).toBe(false);
  });
});

describe("the webhook for DaemonSets on an API server", () => {
  const GKE = "kubernetes.io/arch";
  const policies = { p: {}, q: { taint: { key: GKE } } };
  const exists = (key: string): Toleration => ({ key, operator: "Exists" });

  it("is asked in namespaces of the system as well, unless all keys are tolerated at every value", async () => {
    await using _webhooks = await inForce(policies);
    for (const namespace of ["kube-system", "plain", "ignored"]) {
      expect(await isDaemonSetAsked([], namespace)).toBe(true);
    }
    expect(await isDaemonSetAsked([], OWN)).toBe(false);
    expect(await isDaemonSetAsked([{ operator: "Exists" }])).toBe(false);
    expect(await isDaemonSetAsked([exists("supported-arch"), exists(GKE)])).toBe(false);
    expect(await isDaemonSetAsked([exists("supported-arch")])).toBe(true);
    expect(await isDaemonSetAsked([{ operator: "Exists", effect: "NoExecute" }])).toBe(true);
    expect(await isDaemonSetAsked([{ key: GKE, value: "arm64" }, exists("supported-arch")])).toBe(true);
  });

  it("is asked when the pod template changes, and only then", async () => {
    const of = { namespace: "plain", name: "ds" };
    await client.create(daemonSets, daemonSet([]), { namespace: "plain" });
    await using _webhooks = await inForce(policies);
    const update = (body: object): Promise<boolean> =>
      refused(client.patch(daemonSets, of, { type: "merge", body }, { dryRun: true }));
    expect(await update({ metadata: { labels: { touched: "1" } } })).toBe(false);
    expect(await update({ spec: { template: { metadata: { annotations: { rolled: "1" } } } } })).toBe(true);
  });
});

function daemonSet(tolerations: readonly Toleration[]): object {
  const labels = { app: "ds" };
  const spec: PodSpec = { containers: [{ name: "main", image: "example.com/a:1" }], tolerations };
  return {
    metadata: { name: "ds" },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

function isDaemonSetAsked(tolerations: readonly Toleration[], namespace = "plain"): Promise<boolean> {
  return refused(client.create(daemonSets, daemonSet(tolerations), { namespace, dryRun: true }));
}

function isAsked(pod: Pod): Promise<boolean> {
  return refused(client.create(pods, pod, { namespace: pod.metadata?.namespace ?? "", dryRun: true }));
}

/** @throws what is no refusal because nobody could be asked. */
async function refused(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return false;
  } catch (error) {
    if (isApiError(error) && error.message.includes("failed calling webhook")) return true;
    throw error;
  }
}

/** Resolves when the API server asks, and on disposal when it has stopped to. Its own webhook, first, tells. */
async function inForce(
  policies: Readonly<Record<string, PolicyInit>>,
  failurePolicy: "Fail" | "Ignore" = "Fail",
): Promise<AsyncDisposable> {
  const rules = architectureAdmission({
    namespaceLabels: () => undefined,
    ownNamespace: OWN,
    sight: sightOf({}),
    now: () => 0,
    onPod: () => undefined,
  });
  const made = configurationOf(rules, policiesOf(policies), { client: { url: NOBODY }, ca: cluster.ca });
  const name = made.metadata?.name ?? "";
  const probe = {
    ...made.webhooks?.[0],
    name: "probe.architecture.berth.dev",
    failurePolicy: "Fail",
    namespaceSelector: {},
    matchConditions: [{ name: "probe", expression: 'object.metadata.name == "probe"' }],
  };
  const webhooks = [...(made.webhooks ?? []).map((it) => Object.assign(it, { failurePolicy })), probe];
  await client.create(mutatingWebhookConfigurations, { ...made, webhooks } as typeof made);
  const isProbed = (): Promise<boolean> => isAsked(aPod("probe").in("kube-public").build());
  await eventually(async () => expect(await isProbed()).toBe(true));
  return {
    async [Symbol.asyncDispose]() {
      await client.delete(mutatingWebhookConfigurations, { name });
      await eventually(async () => expect(await isProbed()).toBe(false));
    },
  };
}
