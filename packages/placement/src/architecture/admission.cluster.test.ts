/**
 * About which pods and DaemonSets a real API server asks: nobody answers, so what it asks about it refuses. A cluster of
 * its own, as its webhooks are about all pods. All are only ever created in a dry run, which goes through admission too.
 */
import { daemonSets, type Pod, pods, type Toleration } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { type AskingServer, askingServer, daemonSet, OWN, refused } from "./testing/asking-server.ts";
import { type PolicyInit } from "./testing/policies.ts";

let server: AskingServer;
beforeAll(async () => {
  server = await askingServer();
});

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
    await using _webhooks = await server.inForce(policies);
    const asked: string[] = [];
    for (const namespace of server.namespaces)
      if (await server.isAsked(aPod("p").in(namespace).build())) asked.push(namespace);
    expect(asked.sort()).toEqual(expected);
  });

  it("is not asked about pods that are past deciding", async () => {
    await using _webhooks = await server.inForce({ p: {} });
    const pod = aPod("p").in("plain");
    const ofOwner = (controller: boolean, kind = "DaemonSet"): Pod => {
      const { metadata, ...rest } = pod.build();
      const ownerReferences = [{ ...daemonSetOwner, kind, controller }];
      return { ...rest, metadata: { ...metadata, ownerReferences } };
    };
    expect(await server.isAsked(pod.build())).toBe(true);
    expect(await server.isAsked(pod.on("n1").build())).toBe(false);
    expect(await server.isAsked(pod.on("n1").annotated({ "kubernetes.io/config.mirror": "x" }).build())).toBe(
      false,
    );
    expect(await server.isAsked(ofOwner(true))).toBe(false);
    expect(await server.isAsked(ofOwner(false))).toBe(true);
    expect(await server.isAsked(ofOwner(true, "ReplicaSet"))).toBe(true);
  });

  it("is asked about a new image of a pod that has a node, and about no other change of a pod", async () => {
    const { client } = server;
    const namespace = "plain";
    const initContainers = [{ name: "init", image: "registry.test/init:1" }];
    await client.create(pods, aPod("waiting").in(namespace).build());
    const running = aPod("running").in(namespace).on("n1").build();
    await client.create(pods, { ...running, spec: { containers: [], ...running.spec, initContainers } });
    await using _webhooks = await server.inForce({ p: {} });
    const isAsked = (name: string, body: object): Promise<boolean> =>
      refused(client.patch(pods, { namespace, name }, { type: "strategic", body }, { dryRun: true }));
    const [main] = running.spec?.containers ?? [];
    const image = (list: string, name = ""): object => ({ spec: { [list]: [{ name, image: "other" }] } });
    expect(await isAsked("running", image("containers", main?.name))).toBe(true);
    expect(await isAsked("running", image("initContainers", "init"))).toBe(true);
    expect(await isAsked("waiting", image("containers", main?.name))).toBe(false);
    expect(await isAsked("running", { metadata: { labels: { a: "b" } } })).toBe(false);
  });

  it("is asked about pods that a policy selects, when all of them select some", async () => {
    await using _webhooks = await server.inForce({
      p: { mode: "Affinity", podSelector: { matchLabels: { app: "a" } } },
      q: { mode: "Affinity", podSelector: { matchExpressions: [{ key: "tier", operator: "Exists" }] } },
    });
    const pod = aPod("p").in("plain");
    const asked: boolean[] = [];
    for (const labels of [{ app: "a" }, { tier: "" }, { app: "b" }]) {
      asked.push(await server.isAsked(pod.labelled(labels).build()));
    }
    expect([...asked, await server.isAsked(pod.build())]).toEqual([true, true, false, false]);
  });

  it("lets pods in while nobody answers, unless told otherwise", async () => {
    await using _webhooks = await server.inForce({ p: {} }, "Ignore");
    expect(await server.isAsked(aPod("p").in("plain").build())).toBe(false);
  });
});

describe("the webhook for DaemonSets on an API server", () => {
  const GKE = "kubernetes.io/arch";
  const policies = { p: {}, q: { taint: { key: GKE } } };
  const exists = (key: string): Toleration => ({ key, operator: "Exists" });

  it("is asked in namespaces of the system as well, unless all keys are tolerated at every value", async () => {
    await using _webhooks = await server.inForce(policies);
    for (const namespace of ["kube-system", "plain", "ignored"]) {
      expect(await server.isDaemonSetAsked([], namespace)).toBe(true);
    }
    expect(await server.isDaemonSetAsked([], OWN)).toBe(false);
    expect(await server.isDaemonSetAsked([{ operator: "Exists" }])).toBe(false);
    expect(await server.isDaemonSetAsked([exists("supported-arch"), exists(GKE)])).toBe(false);
    expect(await server.isDaemonSetAsked([exists("supported-arch")])).toBe(true);
    expect(await server.isDaemonSetAsked([{ operator: "Exists", effect: "NoExecute" }])).toBe(true);
    expect(await server.isDaemonSetAsked([{ key: GKE, value: "arm64" }, exists("supported-arch")])).toBe(
      true,
    );
  });

  it("is asked when the pod template changes, and only then", async () => {
    const of = { namespace: "plain", name: "ds" };
    await server.client.create(daemonSets, daemonSet([]), { namespace: "plain" });
    await using _webhooks = await server.inForce(policies);
    const update = (body: object): Promise<boolean> =>
      refused(server.client.patch(daemonSets, of, { type: "merge", body }, { dryRun: true }));
    expect(await update({ metadata: { labels: { touched: "1" } } })).toBe(false);
    expect(await update({ spec: { template: { metadata: { annotations: { rolled: "1" } } } } })).toBe(true);
  });
});
