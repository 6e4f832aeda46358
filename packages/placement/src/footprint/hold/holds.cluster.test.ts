/** Owners under every kind of deletion, with the real garbage collector and Deployment controller. The test is the kubelet. */
import { bindings, configMaps, deployments, namespaces, nodes, type Pod, pods } from "@berth/kube";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { reasons } from "../../api/reasons.ts";
import { compileFootprints } from "../compile.ts";
import type { NodeFootprintSpec } from "../document.ts";
import { documentsOf } from "../testing/footprints.ts";
import {
  createOwner,
  createReplicaSet,
  FINALIZER,
  find,
  footprintsOf,
  GROUP,
  type HoldWorld,
  noFootprints,
  owners,
  podsOfOwner,
  serveOwners,
  startHolds,
} from "../testing/hold-world.ts";

/** For what takes the controllers of Kubernetes several steps, each as soon as they get to it. */
const CONTROLLERS = { timeoutMs: 120_000 };
const namespace = "footprint-holds";
const NODE = "holds-1";
let cluster: TestCluster;
let count = 0;

beforeAll(async () => {
  cluster = await sharedTestCluster({ with: ["controller-manager"] });
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  await cluster.client.create(nodes, aNode(NODE).build());
  await serveOwners(cluster.client);
  await eventually(() => cluster.client.list(owners, {}));
  // The garbage collector looks for new kinds when it starts, and then every 30 s.
  await cluster.stopComponent("kube-controller-manager");
  await cluster.startComponent("kube-controller-manager");
  // It works, and knows the kind, once it ends a deletion in the foreground.
  const probe = { namespace, name: "probe" };
  await cluster.client.create(owners, { metadata: probe }, { namespace });
  await cluster.client.delete(owners, probe, { propagationPolicy: "Foreground" });
  await gone(probe.name);
});

const startBerth = (...[hold = {}, group]: Partial<Parameters<typeof footprintsOf>>): HoldWorld =>
  startHolds(cluster.client, footprintsOf(hold, group));

const theOwner = (name: string) => find(cluster.client, owners, { namespace, name });
const theDeployment = (name: string) =>
  find(cluster.client, deployments, { namespace, name: `${name}-deployment` });

/** With the finalizer on it. */
async function guarded(replicas = 1): Promise<string> {
  const name = `p-${++count}`;
  await createOwner(cluster.client, { namespace, name, replicas });
  await eventually(async () => expect((await theOwner(name))?.metadata?.finalizers).toContain(FINALIZER));
  return name;
}

/** All its pods, bound to the node. */
async function running(name: string, replicas = 1): Promise<readonly Pod[]> {
  const made = await eventually(async () => {
    const found = await podsOfOwner(cluster.client, namespace, name);
    expect(found).toHaveLength(replicas);
    return found;
  }, CONTROLLERS);
  for (const { metadata: { name: pod = "" } = {} } of made) {
    const binding = { metadata: { name: pod, namespace }, target: { kind: "Node", name: NODE } };
    await cluster.client.create(bindings, binding, { namespace });
  }
  return made;
}

async function deleteOwner(
  name: string,
  propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background",
): Promise<void> {
  await cluster.client.delete(owners, { namespace, name }, { propagationPolicy });
}

/** As kubelet does at the end of a pod. */
async function endPods(name: string): Promise<void> {
  for (const { metadata } of await podsOfOwner(cluster.client, namespace, name))
    await cluster.client.delete(
      pods,
      { namespace, name: metadata?.name ?? "" },
      { gracePeriodSeconds: 0, preconditions: { uid: metadata?.uid ?? "" } },
    );
}

async function terminating(name: string): Promise<void> {
  await eventually(async () => {
    const found = await podsOfOwner(cluster.client, namespace, name);
    expect(found.length).toBeGreaterThan(0);
    for (const { metadata } of found) expect(metadata?.deletionTimestamp).toBeDefined();
  }, CONTROLLERS);
}

const gone = (name: string) =>
  eventually(async () => expect(await theOwner(name)).toBeUndefined(), CONTROLLERS);

describe("an owner with a hold", () => {
  it("F-B1 F-E1 F-10 in the background: what it owns is deleted, and it is gone once its pods are", async () => {
    await using berth = startBerth();
    const name = await guarded(2);
    await running(name, 2);
    await deleteOwner(name);
    await terminating(name);
    expect(await theDeployment(name)).toBeUndefined();
    await eventually(() => {
      const [entry] = berth.held.of("cluster/agent");
      expect(entry).toMatchObject({ name: `${namespace}/${name}`, nodes: [NODE] });
      expect(entry?.pods).toHaveLength(2);
    });
    expect((await theOwner(name))?.metadata?.finalizers).toEqual([FINALIZER]);
    await endPods(name);
    await gone(name);
    expect(berth.held.size).toBe(0);
  });

  it("F-B1 in the foreground: the garbage collector does all of it, and it is gone once its pods are", async () => {
    await using _berth = startBerth();
    const name = await guarded();
    await running(name);
    await deleteOwner(name, "Foreground");
    await terminating(name);
    expect(await theOwner(name)).toBeDefined();
    await endPods(name);
    await gone(name);
    await eventually(async () => expect(await theDeployment(name)).toBeUndefined());
  });

  it("F-B1 orphaning: it is gone, and Deployment and pods live on", async () => {
    await using _berth = startBerth();
    const name = await guarded();
    await running(name);
    await deleteOwner(name, "Orphan");
    await gone(name);
    const deployment = await theDeployment(name);
    expect(deployment?.metadata?.deletionTimestamp).toBeUndefined();
    expect(deployment?.metadata?.ownerReferences ?? []).toEqual([]);
    const [pod] = await podsOfOwner(cluster.client, namespace, name);
    expect(pod?.metadata?.deletionTimestamp).toBeUndefined();
    expect(pod?.spec?.nodeName).toBe(NODE);
  });

  it("whose pods are grouped by a label that is believed: it is gone once they are, and at once when orphaned", async () => {
    await using _berth = startBerth({}, { by: "PodLabel", label: "pool-uid" });
    const name = await guarded();
    await running(name);
    await deleteOwner(name);
    await terminating(name);
    expect(await theOwner(name)).toBeDefined();
    await endPods(name);
    await gone(name);
    const other = await guarded();
    await running(other);
    await deleteOwner(other, "Orphan");
    await gone(other);
    expect(await theDeployment(other)).toBeDefined();
  });

  it("that could own what the cluster does not have: it is gone like any other", async () => {
    const rollouts = { group: "no.such", version: "v1", resource: "rollouts" };
    const ownedResources = [rollouts, { group: "apps", version: "v1", resource: "deployments" }];
    await using _berth = startBerth({ ownedResources });
    const name = await guarded(0);
    await deleteOwner(name);
    await gone(name);
    await eventually(async () => expect(await theDeployment(name)).toBeUndefined());
  });

  it.each(["Background", "Foreground"] as const)(
    "%s that owns something together with another: that lives on, as the garbage collector has it",
    async (propagationPolicy) => {
      await using _berth = startBerth();
      const name = await guarded();
      await running(name);
      const other = await cluster.client.create(
        configMaps,
        { metadata: { namespace, name: `other-of-${name}` } },
        { namespace },
      );
      const of = { namespace, name: `${name}-deployment` };
      const { ownerReferences = [] } = (await cluster.client.get(deployments, of)).metadata ?? {};
      const uid = other.metadata?.uid ?? "";
      const another = { apiVersion: "v1", kind: "ConfigMap", name: `other-of-${name}`, uid };
      const body = { metadata: { ownerReferences: [...ownerReferences, another] } };
      await cluster.client.patch(deployments, of, { type: "merge", body });
      await deleteOwner(name, propagationPolicy);
      await gone(name);
      await eventually(async () =>
        expect((await theDeployment(name))?.metadata?.ownerReferences).toMatchObject([{ uid }]),
      );
      expect((await theDeployment(name))?.metadata?.deletionTimestamp).toBeUndefined();
    },
  );

  it("that controls a ReplicaSet, which is not deleted with it: it goes before the pods, or in the foreground after", async () => {
    await using berth = startBerth();
    const named = async (): Promise<string> => {
      const name = await guarded(0);
      await createReplicaSet(cluster.client, { namespace, name });
      await running(name);
      return name;
    };
    const [name, other] = [await named(), await named()];
    await deleteOwner(name);
    await gone(name);
    await terminating(name);
    await deleteOwner(other, "Foreground");
    await terminating(other);
    expect(await theOwner(other)).toBeDefined();
    await eventually(() => expect(berth.held.of("cluster/agent")[0]?.pods).toHaveLength(1));
    for (const one of [name, other]) await endPods(one);
    await gone(other);
  });

  it("F-11 F-E13 with pods that never had a node: it is gone, and so is all that it owned", async () => {
    await using _berth = startBerth();
    const name = await guarded();
    await deleteOwner(name);
    await gone(name);
    await eventually(async () => {
      expect(await theDeployment(name)).toBeUndefined();
      expect(await podsOfOwner(cluster.client, namespace, name)).toEqual([]);
    });
  });

  it("F-E10 F-B4 whose claim somebody has put on a node without its pods: it is gone", async () => {
    await using _berth = startBerth();
    const name = await guarded(0);
    const { metadata } = (await theOwner(name)) ?? {};
    const annotations = { [`test.berth.dev/claim.${metadata?.uid}`]: "" };
    await cluster.client.patch(nodes, { name: NODE }, { type: "merge", body: { metadata: { annotations } } });
    await deleteOwner(name);
    await gone(name);
    expect(await theDeployment(name).then((it) => it?.metadata?.finalizers)).toBeUndefined();
  });

  it("F-E2 F-B2 whose last pod ends while Berth is away: it is gone when Berth is back", async () => {
    const name = await (async () => {
      await using _berth = startBerth();
      const held = await guarded();
      await running(held);
      await deleteOwner(held);
      await terminating(held);
      return held;
    })();
    await endPods(name);
    expect(await theOwner(name)).toBeDefined();
    await using _again = startBerth();
    await gone(name);
  });

  it("F-B11 F-E12 with a stuck pod: the timeout lets it go, and an Event says what was left", async () => {
    await using berth = startBerth({ timeout: "3s" });
    const name = await guarded();
    const [pod] = await running(name);
    await deleteOwner(name);
    await terminating(name);
    await gone(name);
    expect(await podsOfOwner(cluster.client, namespace, name)).toHaveLength(1);
    // It is written once the finalizer is known to be off, which we may see first.
    const event = await eventually(() => {
      const found = berth.events.find(({ regarding }) => regarding.name === name);
      expect(found).toBeDefined();
      return found;
    });
    expect(event).toMatchObject({
      type: "Warning",
      reason: reasons.HoldTimedOut,
      regarding: { kind: "Pool" },
    });
    expect(event?.note).toMatch(/^let go after \d+(?:\.\d+)?s; it still waited for a pod: /);
    expect(event?.note).toContain(`${namespace}/${pod?.metadata?.name} on ${NODE}`);
    await endPods(name);
  });

  it("keeps the finalizers of others where they are, and loses ours when no footprint holds it any more", async () => {
    await using berth = startBerth();
    const name = `p-${++count}`;
    const others = ["test.berth.dev/a", "test.berth.dev/b"];
    await cluster.client.create(owners, { metadata: { namespace, name, finalizers: others } }, { namespace });
    const finalizers = (wanted: readonly string[]) =>
      eventually(async () => expect((await theOwner(name))?.metadata?.finalizers).toEqual(wanted));
    await finalizers([...others, FINALIZER]);
    berth.want(noFootprints());
    await finalizers(others);
    await cluster.client.patch(
      owners,
      { namespace, name },
      { type: "merge", body: { metadata: { finalizers: [] } } },
    );
  });

  it("left to somebody else by onDelete Wait: nothing of it is deleted until they do", async () => {
    await using berth = startBerth({ onDelete: "Wait" });
    const name = await guarded(0);
    await deleteOwner(name);
    await eventually(() =>
      expect(berth.held.of("cluster/agent")[0]?.message).toContain(`${name}-deployment`),
    );
    expect((await theDeployment(name))?.metadata?.deletionTimestamp).toBeUndefined();
    await cluster.client.delete(deployments, { namespace, name: `${name}-deployment` });
    await gone(name);
  });
});

const SPEC = {
  workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
  group: { by: "OwnerUID", owner: { group: GROUP, kind: "Pool" } },
  node: { label: { key: "test.berth.dev/agent" } },
} satisfies NodeFootprintSpec;

/** Another label, by which no two footprints want one place. */
function holding(finalizer = FINALIZER, label = SPEC.node.label.key): NodeFootprintSpec {
  const resource = { group: GROUP, version: "v1", resource: "pools" };
  const ownedResources = [{ group: "apps", version: "v1", resource: "deployments" }];
  return { ...SPEC, node: { label: { key: label } }, hold: { resource, finalizer, ownedResources } };
}

describe("an owner whose footprints change", () => {
  it("is let go by the document in a file that goes before the one of the cluster", async () => {
    const before = footprintsOf({});
    await using berth = startHolds(cluster.client, before);
    const name = await guarded(0);
    const sources = [documentsOf({ agent: holding() }, "config"), documentsOf({ agent: holding() })];
    berth.want(compileFootprints({ sources, before: before.footprints }));
    await deleteOwner(name);
    await gone(name);
    await eventually(() => expect(berth.held.size).toBe(0));
  });

  it("is let go by a document that has come to have a fault, though another has its label by now", async () => {
    const before = compileFootprints({ sources: [documentsOf({ a: holding() })] });
    await using berth = startHolds(cluster.client, before);
    const name = await guarded(0);
    const unreadable = [{ name: "a", message: "a typing error" }];
    const sources = [{ ...documentsOf({ b: SPEC }), unreadable }];
    const after = compileFootprints({ sources, before: before.footprints });
    expect(after.footprints.map((it) => it.name)).toEqual(["b"]);
    berth.want(after);
    await deleteOwner(name);
    await gone(name);
  });

  it("goes on to be deleted when what it owns is completed while it waits", async () => {
    await using berth = startBerth({
      onDelete: "Wait",
      ownedResources: [{ group: "", version: "v1", resource: "configmaps" }],
    });
    const name = await guarded();
    await running(name);
    await deleteOwner(name);
    await eventually(() => expect(berth.held.of("cluster/agent")[0]?.pods).toHaveLength(1));
    berth.want(footprintsOf({}));
    await terminating(name);
    await endPods(name);
    await gone(name);
  });

  it("is let go by a second footprint that comes to hold it by a finalizer that stands already", async () => {
    const first = { agent: holding("test.berth.dev/a") };
    const other = "test.berth.dev/other";
    const finalizers = (wanted: readonly string[]) =>
      eventually(async () => expect((await theOwner(name))?.metadata?.finalizers).toEqual(wanted));
    await using berth = startHolds(cluster.client, compileFootprints({ sources: [documentsOf(first)] }));
    const name = `p-${++count}`;
    await createOwner(cluster.client, { namespace, name, replicas: 0 });
    await finalizers(["test.berth.dev/a"]);
    const body = { metadata: { finalizers: [other, "test.berth.dev/a"] } };
    await cluster.client.patch(owners, { namespace, name }, { type: "merge", body });
    await deleteOwner(name);
    await finalizers([other]);
    const both = { ...first, second: holding(other, "test.berth.dev/second") };
    berth.want(compileFootprints({ sources: [documentsOf(both)] }));
    await gone(name);
  });

  it("is gone when it is orphaned beside another that waits, and its pod lives on", async () => {
    await using berth = startBerth({ onDelete: "Wait", ownedResources: [] });
    const [name, other] = [await guarded(), await guarded()];
    await running(name);
    await running(other);
    await deleteOwner(other);
    await eventually(() => expect(berth.held.of("cluster/agent")[0]?.pods).toHaveLength(1));
    await deleteOwner(name, "Orphan");
    await gone(name);
    expect(await podsOfOwner(cluster.client, namespace, name)).toHaveLength(1);
    await cluster.client.delete(deployments, { namespace, name: `${other}-deployment` });
    await endPods(other);
    await gone(other);
  });

  it("is not kept by a pod whose controller has a name that can be none", async () => {
    await using berth = startBerth();
    const name = await guarded();
    await running(name);
    const hostile = aPod("hostile").in(namespace).labelled({ agent: "needed" }).on(NODE).build();
    const maker = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "a".repeat(100_000), uid: "x" };
    const ownerReferences = [{ ...maker, controller: true }];
    const metadata = { ...hostile.metadata, ownerReferences };
    await cluster.client.create(pods, { ...hostile, metadata }, { namespace });
    await deleteOwner(name);
    await terminating(name);
    await endPods(name);
    await cluster.client.delete(pods, { namespace, name: "hostile" }, { gracePeriodSeconds: 0 });
    await gone(name);
    await eventually(() => expect(berth.held.size).toBe(0));
  });
});
