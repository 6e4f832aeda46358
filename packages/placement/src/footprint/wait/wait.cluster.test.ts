/** What the real API server makes of the wait for an agent: patched into pods, asked for by webhook. */

import { applyPatch } from "@berth/host";
import {
  type Container,
  mutatingWebhookConfigurations,
  namespaces,
  type Pod,
  type PodSpec,
  pods,
  resourceQuotas,
} from "@berth/kube";
import { createSilentLogger } from "@berth/runtime";
import { aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { configurationOf } from "../../node/testing/configuration.ts";
import { footprintsOf } from "../testing/footprints.ts";
import { sightOf } from "../testing/pods.ts";
import { waitAdmission } from "./admission.ts";
import { admitWait } from "./admit.ts";

const namespace = "footprint-wait";
let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
});

const wait = { container: { name: "wait", image: "busybox:1.36" }, port: 8085 } as const;
/** Namespaces that refuse pods: for what containers may do, and for what they do not say of resources. */
async function strictNamespace(name: string): Promise<void> {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await cluster.client.create(namespaces, { metadata: { name, labels } });
  const hard = { "limits.cpu": "9", "limits.memory": "9Gi", "requests.cpu": "9", "requests.memory": "9Gi" };
  const of = { namespace: name, name: "all" };
  await cluster.client.create(resourceQuotas, { metadata: of, spec: { hard } }, { namespace: name });
  // As the quota controller would, which does not run here.
  const body = { status: { hard, used: Object.fromEntries(Object.keys(hard).map((key) => [key, "0"])) } };
  await cluster.client.patch(resourceQuotas, of, { type: "merge", body }, { subresource: "status" });
  // Until admission has seen the status, it refuses every pod.
  const pod = strictPod(undefined, {});
  await eventually(() => cluster.client.create(pods, pod, { namespace: name, dryRun: true }));
}

/** What strict namespaces take. */
function strictPod(securityContext: PodSpec["securityContext"], labels: Record<string, string>): Pod {
  const amounts = { cpu: "1", memory: "1Gi" };
  const container: Container = {
    name: "main",
    image: "registry.test/a:1",
    resources: { requests: amounts, limits: amounts },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      runAsNonRoot: true,
      runAsUser: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    },
  };
  return {
    metadata: { generateName: "strict-", labels },
    spec: { containers: [container], ...(securityContext && { securityContext }) },
  };
}

describe.each<[string, PodSpec["securityContext"]]>([
  ["that says nothing of itself", undefined],
  [
    "with a security context of its own",
    {
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      fsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    },
  ],
])("a pod %s in a namespace with Pod Security restricted and a quota", (_name, securityContext) => {
  const labels = { agent: "needed" };

  it("is taken as it is, and with the wait that the webhook puts in, and stays guaranteed", async () => {
    const strict = `strict-${++count}`;
    await strictNamespace(strict);
    const [hooked] = footprintsOf({
      f: {
        workloads: [{ podSelector: { matchLabels: labels } }],
        node: { label: { key: "test.berth.dev/agent" } },
        wait: { ...wait, inject: "Webhook" },
      },
    }).footprints;
    if (hooked === undefined) throw new Error("not in force");
    const object = strictPod(securityContext, labels);
    await cluster.client.create(pods, object, { namespace: strict, dryRun: true });
    const { patch } = admitWait(
      { footprints: [hooked], observations: sightOf({}) },
      { kind: { kind: "Pod" }, operation: "CREATE", object, namespace: strict },
    );
    const stored = await cluster.client.create(pods, applyPatch(object, patch) as Pod, { namespace: strict });
    expect(stored.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait"]);
    expect(stored.status?.qosClass).toBe("Guaranteed");
  });
});

describe("a pod that the webhook has wait", () => {
  const [hooked] = footprintsOf({
    f: {
      workloads: [
        { podSelector: { matchExpressions: [{ key: "agent", operator: "In", values: ["a", "b"] }] } },
      ],
      node: { label: { key: "test.berth.dev/agent" } },
      wait: { ...wait, inject: "Webhook", container: { ...wait.container, timeout: "5m" } },
    },
  }).footprints;

  it("is stored with the container first", async () => {
    if (hooked === undefined) throw new Error("not in force");
    const object = aPod("waiting")
      .in(namespace)
      .labelled({ agent: "b" })
      .initContainer("x", "registry.test/x:1")
      .build();
    const { patch } = admitWait(
      { footprints: [hooked], observations: sightOf({}) },
      { kind: { kind: "Pod" }, operation: "CREATE", object, namespace },
    );
    const stored = await cluster.client.create(pods, applyPatch(object, patch) as Pod, { namespace });
    expect(stored.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait", "x"]);
  });

  it("is asked for by a configuration that the API server takes", async () => {
    if (hooked === undefined) throw new Error("not in force");
    const rules = waitAdmission({ observations: sightOf({}), log: createSilentLogger() });
    const at = { client: { url: "https://127.0.0.1:1" }, ca: cluster.ca };
    const made = configurationOf(rules, { footprints: [hooked], policy: {} }, at);
    const stored = await cluster.client.create(mutatingWebhookConfigurations, made, { dryRun: true });
    expect(stored.webhooks?.[0]?.matchConditions).toHaveLength(1);
  });
});
