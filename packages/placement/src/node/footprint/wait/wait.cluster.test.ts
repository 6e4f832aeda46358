/** What the real API server makes of the wait for an agent: applied to Deployments, patched into pods, asked for by webhook. */
import {
  type Container,
  type Deployment,
  deployments,
  type KubeClient,
  mutatingWebhookConfigurations,
  namespaces,
  type Pod,
  type PodSpec,
  pods,
  resourceQuotas,
  type Volume,
} from "@berth/kube";
import {
  clusterName,
  createController,
  createSilentLogger,
  type EventInput,
  Manager,
  systemClock,
} from "@berth/runtime";
import { aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { reasons } from "../../../api/reasons.ts";
import { applyPatch } from "../../testing/json-patch.ts";
import { compileFootprints } from "../compile.ts";
import type { Footprints } from "../footprint.ts";
import { documentsOf, footprintsOf } from "../testing/footprints.ts";
import { sightOf } from "../testing/pods.ts";
import { admitWait } from "./admit.ts";
import { waitWebhook } from "./objects.ts";
import { createWaitReconciler } from "./reconciler.ts";
import { WaitWatch } from "./watch.ts";

const namespace = "footprint-wait";
const POOL = { group: "test.berth.dev", kind: "Pool" };
let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
});

const wait = { container: { name: "wait", image: "busybox:1.36" }, port: 8085 } as const;
const applying = footprintsOf({
  f: {
    workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
    group: { by: "OwnerUID", owner: POOL },
    node: { label: { key: "test.berth.dev/agent" } },
    wait: { ...wait, inject: "ServerSideApply" },
  },
});

interface Berth extends AsyncDisposable {
  readonly events: readonly EventInput[];
  want(footprints: Footprints): void;
}

function startBerth(client: KubeClient, first = applying, installation = "berth"): Berth {
  const common = { client, cluster: clusterName("c"), clock: systemClock, log: createSilentLogger() };
  const events: EventInput[] = [];
  let footprints = first;
  const watch = new WaitWatch({ ...common, installation, onDeployment: (key) => controller.enqueue(key) });
  const controller = createController({
    ...common,
    name: "footprint-wait",
    reconcile: createWaitReconciler({
      deployments: watch,
      footprints: () => footprints,
      sight: sightOf({}),
      client,
      installation,
      events: { record: (event) => events.push(event) },
      clock: systemClock,
    }),
  });
  watch.want(footprints.footprints);
  const abort = new AbortController();
  const run = new Manager({ ...common, always: [[watch]], elected: [controller] }).run(abort.signal);
  return {
    events,
    want(next) {
      footprints = next;
      watch.want(next.footprints);
    },
    [Symbol.asyncDispose]: async () => {
      abort.abort();
      await run;
    },
  };
}

async function create(
  initContainers: readonly Container[],
  {
    kind = POOL.kind,
    labels = { agent: "needed" },
    volumes = [],
  }: { kind?: string; labels?: Record<string, string>; volumes?: readonly Volume[] } = {},
): Promise<string> {
  const name = `d-${++count}`;
  const owner = { apiVersion: `${POOL.group}/v1`, kind, name, uid: `uid-${name}`, controller: true };
  await cluster.client.create(
    deployments,
    {
      metadata: { name, namespace, ownerReferences: [owner] },
      spec: {
        selector: { matchLabels: { name } },
        template: {
          metadata: { labels: { ...labels, name } },
          spec: { initContainers, containers: [{ name: "main", image: "registry.test/a:1" }], volumes },
        },
      },
    },
    { namespace },
  );
  return name;
}

const get = (name: string): Promise<Deployment> => cluster.client.get(deployments, { namespace, name });
const initsOf = ({ spec }: Deployment): readonly Container[] => spec?.template.spec?.initContainers ?? [];
const namesOf = (deployment: Deployment): readonly string[] => initsOf(deployment).map(({ name }) => name);
const standing = (name: string, names: readonly string[]): Promise<Deployment> =>
  eventually(async () => {
    const deployment = await get(name);
    expect(namesOf(deployment)).toEqual(names);
    return deployment;
  });
const ofBerth = ({ metadata }: Deployment) =>
  metadata?.managedFields?.filter(({ manager }) => manager === "berth");

describe("a Deployment whose pods need the agent", () => {
  it("F-9 has them wait first of all, with one roll-out, and keeps its other init containers", async () => {
    await using berth = startBerth(cluster.client);
    const others = [
      { name: "x", image: "registry.test/x:1" },
      { name: "y", image: "registry.test/y:1" },
    ];
    const name = await create(others);
    // Until it owns nothing of the others: they are named in the first apply, for the order.
    const deployment = await eventually(async () => {
      const found = await get(name);
      expect(JSON.stringify(ofBerth(found))).toContain("wait");
      expect(JSON.stringify(ofBerth(found))).not.toContain('\\"x\\"');
      return found;
    });
    expect(namesOf(deployment)).toEqual(["wait", "x", "y"]);
    expect(deployment.metadata?.generation).toBe(2);
    expect(initsOf(deployment)[1]).toMatchObject(others[0] ?? {});
    await eventually(() =>
      expect(berth.events).toMatchObject([{ reason: reasons.AgentWaitSet, type: "Normal" }]),
    );
    // Whoever made them can still take them off.
    const body = [{ op: "remove", path: "/spec/template/spec/initContainers/1" }] as const;
    await cluster.client.patch(deployments, { namespace, name }, { type: "json", body });
    await standing(name, ["wait", "y"]);
    expect(berth.events).toHaveLength(1);
  });

  it("no longer does when the footprint is gone, and is left as it was", async () => {
    const name = await create([{ name: "x", image: "registry.test/x:1" }]);
    const { spec } = await get(name);
    await using berth = startBerth(cluster.client);
    await standing(name, ["wait", "x"]);
    berth.want(footprintsOf({}));
    const after = await standing(name, ["x"]);
    await eventually(() =>
      expect(berth.events.at(-1)).toMatchObject({
        reason: reasons.AgentWaitTaken,
        note: "rolled out without the init container wait",
      }),
    );
    expect(after.spec).toEqual(spec);
    expect(ofBerth(after)).toEqual([]);
  });

  it("is left alone by a Berth that starts anew", async () => {
    const name = await create([]);
    await (async () => {
      await using _berth = startBerth(cluster.client);
      await standing(name, ["wait"]);
    })();
    const before = (await get(name)).metadata?.resourceVersion;
    await using _again = startBerth(cluster.client);
    // Another one has been looked at, and so has this one: they come in one snapshot or later.
    await standing(await create([]), ["wait"]);
    expect((await get(name)).metadata?.resourceVersion).toBe(before);
  });

  it("keeps the wait of a document that has got a fault before Berth starts anew, until it is gone", async () => {
    const name = await create([]);
    await (async () => {
      await using _berth = startBerth(cluster.client);
      await standing(name, ["wait"]);
    })();
    const before = (await get(name)).metadata?.resourceVersion;
    const others = documentsOf({
      other: {
        workloads: [{ podSelector: { matchLabels: { agent: "other" } } }],
        node: { label: { key: "test.berth.dev/other" } },
        wait: { ...wait, inject: "ServerSideApply", container: { ...wait.container, name: "other" } },
      },
    });
    const config = documentsOf({}, "config");
    const unreadable = [{ name: "f", message: "spec.wait.port: expected number" }];
    await using again = startBerth(
      cluster.client,
      compileFootprints({ sources: [config, { ...others, unreadable }] }),
    );
    await standing(await create([], { labels: { agent: "other" } }), ["other"]);
    expect((await get(name)).metadata?.resourceVersion).toBe(before);
    again.want(compileFootprints({ sources: [config, others] }));
    await standing(name, []);
  });

  it("keeps the wait of another installation, which its own field manager tells", async () => {
    const name = await create([]);
    const labels = { agent: "other" };
    const others = footprintsOf({
      other: {
        workloads: [{ podSelector: { matchLabels: labels } }],
        node: { label: { key: "test.berth.dev/other" } },
        wait: { ...wait, inject: "ServerSideApply", container: { ...wait.container, name: "other" } },
      },
    });
    await using _first = startBerth(cluster.client);
    await standing(name, ["wait"]);
    const before = (await get(name)).metadata?.resourceVersion;
    await using second = startBerth(cluster.client, others, "b");
    const own = await create([], { labels });
    const after = await standing(own, ["other"]);
    expect(after.metadata?.managedFields?.map(({ manager }) => manager)).toContain("berth-b");
    // Both have looked at both by now.
    second.want(footprintsOf({}));
    await standing(own, []);
    expect((await get(name)).metadata?.resourceVersion).toBe(before);
  });

  it("is left alone with a container of that name, of another kind of owner, and without the labels", async () => {
    await using berth = startBerth(cluster.client);
    const image = "registry.test/own:1";
    const names = [
      await create([{ name: "wait", image }]),
      await create([], { kind: "Other" }),
      await create([], { labels: {} }),
    ];
    await standing(await create([]), ["wait"]);
    const found = await Promise.all(names.map(get));
    expect(found.map(({ metadata }) => metadata?.generation)).toEqual([1, 1, 1]);
    expect(found.map(ofBerth)).toEqual([[], [], []]);
    await eventually(() =>
      expect(berth.events.some(({ regarding }) => regarding.name === names[0])).toBe(false),
    );
  });

  it("is looked at again when what is known of its namespace or its claims changes, and for no other", async () => {
    const name = await create([]);
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data" } }];
    const mounting = await create([], { volumes });
    const looked: string[] = [];
    const watch = new WaitWatch({
      client: cluster.client,
      cluster: clusterName("c"),
      installation: "berth",
      clock: systemClock,
      log: createSilentLogger(),
      onDeployment: (key) => looked.push(key.name),
    });
    watch.want(applying.footprints);
    const abort = new AbortController();
    const { ended } = await watch.start(abort.signal);
    await eventually(() => expect(looked).toEqual(expect.arrayContaining([name, mounting])));
    looked.length = 0;
    watch.lookAgain({ namespace: "default" });
    watch.lookAgain({ namespace: "default", claim: "data" });
    watch.lookAgain({ namespace, claim: "other" });
    expect(looked).toEqual([]);
    watch.lookAgain({ namespace, claim: "data" });
    expect(looked).toEqual([mounting]);
    watch.lookAgain({ namespace });
    expect(looked).toEqual(expect.arrayContaining([name, mounting]));
    abort.abort();
    await ended;
  });

  it("gets the wait back that somebody has taken off", async () => {
    await using _berth = startBerth(cluster.client);
    const name = await create([]);
    await standing(name, ["wait"]);
    const body = [{ op: "remove", path: "/spec/template/spec/initContainers" }] as const;
    const { metadata } = await cluster.client.patch(deployments, { namespace, name }, { type: "json", body });
    const after = await standing(name, ["wait"]);
    expect(after.metadata?.generation).toBeGreaterThan(metadata?.generation ?? 0);
  });
});

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
      { footprints: [hooked], sight: sightOf({}) },
      { kind: { kind: "Pod" }, operation: "CREATE", object, namespace: strict },
    );
    const stored = await cluster.client.create(pods, applyPatch(object, patch) as Pod, { namespace: strict });
    expect(stored.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait"]);
    expect(stored.status?.qosClass).toBe("Guaranteed");
  });

  it("is taken as its Deployment has it after the apply, which is settled then", async () => {
    const strict = `strict-${++count}`;
    await strictNamespace(strict);
    await using _berth = startBerth(cluster.client);
    const { spec } = strictPod(securityContext, labels);
    const name = `d-${++count}`;
    const owner = { apiVersion: `${POOL.group}/v1`, kind: POOL.kind, name, uid: "u", controller: true };
    const template = { metadata: { labels: { ...labels, name } }, ...(spec && { spec }) };
    await cluster.client.create(
      deployments,
      {
        metadata: { name, namespace: strict, ownerReferences: [owner] },
        spec: { selector: { matchLabels: { name } }, template },
      },
      { namespace: strict },
    );
    const of = { namespace: strict, name };
    const { spec: after } = await eventually(async () => {
      const found = await cluster.client.get(deployments, of);
      expect(namesOf(found)).toEqual(["wait"]);
      return found;
    });
    const made: Pod = {
      metadata: { generateName: `${name}-`, labels },
      ...(after?.template.spec && { spec: after.template.spec }),
    };
    const stored = await cluster.client.create(pods, made, { namespace: strict });
    expect(stored.status?.qosClass).toBe("Guaranteed");
    // Another one has been looked at, and so has this one again: it stands as it was applied.
    await standing(await create([]), ["wait"]);
    expect((await cluster.client.get(deployments, of)).metadata?.generation).toBe(2);
  });
});

describe("the settings of the wait", () => {
  it("are taken back from a Deployment when they are none any more, with one roll-out", async () => {
    await using berth = startBerth(cluster.client);
    const name = await create([]);
    const before = await standing(name, ["wait"]);
    expect(initsOf(before)[0]).toMatchObject({ resources: {}, securityContext: { runAsUser: 65_534 } });
    berth.want(
      footprintsOf({
        f: {
          workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
          group: { by: "OwnerUID", owner: POOL },
          node: { label: { key: "test.berth.dev/agent" } },
          wait: {
            ...wait,
            inject: "ServerSideApply",
            container: { ...wait.container, resources: { limits: { cpu: "0.1" } }, securityContext: {} },
          },
        },
      }),
    );
    const after = await eventually(async () => {
      const found = await get(name);
      expect(initsOf(found)[0]?.securityContext?.runAsUser).toBeUndefined();
      return found;
    });
    expect(initsOf(after)[0]?.resources).toEqual({ limits: { cpu: "100m" } });
    await standing(await create([]), ["wait"]);
    expect((await get(name)).metadata?.generation).toBe((before.metadata?.generation ?? 0) + 1);
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
      { footprints: [hooked], sight: sightOf({}) },
      { kind: { kind: "Pod" }, operation: "CREATE", object, namespace },
    );
    const stored = await cluster.client.create(pods, applyPatch(object, patch) as Pod, { namespace });
    expect(stored.spec?.initContainers?.map(({ name }) => name)).toEqual(["wait", "x"]);
  });

  it("is asked for by a configuration that the API server takes", async () => {
    if (hooked === undefined) throw new Error("not in force");
    const made = waitWebhook([hooked], { client: { url: "https://127.0.0.1:1" }, ca: cluster.ca });
    const stored = await cluster.client.create(mutatingWebhookConfigurations, made, { dryRun: true });
    expect(stored.webhooks?.[0]?.matchConditions).toHaveLength(1);
  });
});
