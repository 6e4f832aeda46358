/** Owners under every kind of deletion, with the real garbage collector and Deployment controller. The test is the kubelet. */
import { configMaps, deployments, nodes } from "@berth/kube";
import { eventually } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { reasons } from "../../api/reasons.ts";
import { compileFootprints } from "../compile.ts";
import { documentsOf } from "../testing/footprints.ts";
import { HoldCluster, holding, NODE, namespace, SPEC } from "../testing/hold-cluster.ts";
import {
  createOwner,
  createReplicaSet,
  FINALIZER,
  footprintsOf,
  noFootprints,
  owners,
  podsOfOwner,
} from "../testing/hold-world.ts";

let cluster: HoldCluster;

beforeAll(async () => {
  cluster = await HoldCluster.start();
});

describe("an owner with a hold", () => {
  it("F-B1 F-E1 F-10 in the background: what it owns is deleted, and it is gone once its pods are", async () => {
    await using berth = cluster.startBerth();
    const name = await cluster.guarded(2);
    await cluster.running(name, 2);
    await cluster.deleteOwner(name);
    await cluster.terminating(name);
    expect(await cluster.theDeployment(name)).toBeUndefined();
    await eventually(() => {
      const [entry] = berth.held.of("cluster/agent");
      expect(entry).toMatchObject({ name: `${namespace}/${name}`, nodes: [NODE] });
      expect(entry?.pods).toHaveLength(2);
    });
    expect((await cluster.theOwner(name))?.metadata?.finalizers).toEqual([FINALIZER]);
    await cluster.endPods(name);
    await cluster.gone(name);
    expect(berth.held.size).toBe(0);
  });

  it("F-B1 in the foreground: the garbage collector does all of it, and it is gone once its pods are", async () => {
    await using _berth = cluster.startBerth();
    const name = await cluster.guarded();
    await cluster.running(name);
    await cluster.deleteOwner(name, "Foreground");
    await cluster.terminating(name);
    expect(await cluster.theOwner(name)).toBeDefined();
    await cluster.endPods(name);
    await cluster.gone(name);
    await eventually(async () => expect(await cluster.theDeployment(name)).toBeUndefined());
  });

  it("F-B1 orphaning: it is gone, and Deployment and pods live on", async () => {
    await using _berth = cluster.startBerth();
    const name = await cluster.guarded();
    await cluster.running(name);
    await cluster.deleteOwner(name, "Orphan");
    await cluster.gone(name);
    const deployment = await cluster.theDeployment(name);
    expect(deployment?.metadata?.deletionTimestamp).toBeUndefined();
    expect(deployment?.metadata?.ownerReferences ?? []).toEqual([]);
    const [pod] = await podsOfOwner(cluster.client, namespace, name);
    expect(pod?.metadata?.deletionTimestamp).toBeUndefined();
    expect(pod?.spec?.nodeName).toBe(NODE);
  });

  it("that could own what the cluster does not have: it is gone like any other", async () => {
    const rollouts = { group: "no.such", version: "v1", resource: "rollouts" };
    const ownedResources = [rollouts, { group: "apps", version: "v1", resource: "deployments" }];
    await using _berth = cluster.startBerth({ ownedResources });
    const name = await cluster.guarded(0);
    await cluster.deleteOwner(name);
    await cluster.gone(name);
    await eventually(async () => expect(await cluster.theDeployment(name)).toBeUndefined());
  });

  it.each(["Background", "Foreground"] as const)(
    "%s that owns something together with another: that lives on, as the garbage collector has it",
    async (propagationPolicy) => {
      await using _berth = cluster.startBerth();
      const name = await cluster.guarded();
      await cluster.running(name);
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
      await cluster.deleteOwner(name, propagationPolicy);
      await cluster.gone(name);
      await eventually(async () =>
        expect((await cluster.theDeployment(name))?.metadata?.ownerReferences).toMatchObject([{ uid }]),
      );
      expect((await cluster.theDeployment(name))?.metadata?.deletionTimestamp).toBeUndefined();
    },
  );

  it("that controls a ReplicaSet, which is not deleted with it: it goes before the pods, or in the foreground after", async () => {
    await using berth = cluster.startBerth();
    const named = async (): Promise<string> => {
      const name = await cluster.guarded(0);
      await createReplicaSet(cluster.client, { namespace, name });
      await cluster.running(name);
      return name;
    };
    const [name, other] = [await named(), await named()];
    await cluster.deleteOwner(name);
    await cluster.gone(name);
    await cluster.terminating(name);
    await cluster.deleteOwner(other, "Foreground");
    await cluster.terminating(other);
    expect(await cluster.theOwner(other)).toBeDefined();
    await eventually(() => expect(berth.held.of("cluster/agent")[0]?.pods).toHaveLength(1));
    for (const one of [name, other]) await cluster.endPods(one);
    await cluster.gone(other);
  });

  it("F-11 F-E13 with pods that never had a node: it is gone, and so is all that it owned", async () => {
    await using _berth = cluster.startBerth();
    const name = await cluster.guarded();
    await cluster.deleteOwner(name);
    await cluster.gone(name);
    await eventually(async () => {
      expect(await cluster.theDeployment(name)).toBeUndefined();
      expect(await podsOfOwner(cluster.client, namespace, name)).toEqual([]);
    });
  });

  it("F-E10 F-B4 whose claim somebody has put on a node without its pods: it is gone", async () => {
    await using _berth = cluster.startBerth();
    const name = await cluster.guarded(0);
    const { metadata } = (await cluster.theOwner(name)) ?? {};
    const annotations = { [`test.berth.dev/claim.${metadata?.uid}`]: "" };
    await cluster.client.patch(nodes, { name: NODE }, { type: "merge", body: { metadata: { annotations } } });
    await cluster.deleteOwner(name);
    await cluster.gone(name);
    expect(await cluster.theDeployment(name).then((it) => it?.metadata?.finalizers)).toBeUndefined();
  });

  it("F-E2 F-B2 whose last pod ends while Berth is away: it is gone when Berth is back", async () => {
    const name = await (async () => {
      await using _berth = cluster.startBerth();
      const held = await cluster.guarded();
      await cluster.running(held);
      await cluster.deleteOwner(held);
      await cluster.terminating(held);
      return held;
    })();
    await cluster.endPods(name);
    expect(await cluster.theOwner(name)).toBeDefined();
    await using _again = cluster.startBerth();
    await cluster.gone(name);
  });

  it("F-B11 F-E12 with a stuck pod: the timeout lets it go, and an Event says what was left", async () => {
    await using berth = cluster.startBerth({ timeout: "3s" });
    const name = await cluster.guarded();
    const [pod] = await cluster.running(name);
    await cluster.deleteOwner(name);
    await cluster.terminating(name);
    await cluster.gone(name);
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
    expect(event?.note).toMatch(/^released after \d+(?:\.\d+)?s; it still waited for a pod: /);
    expect(event?.note).toContain(`${namespace}/${pod?.metadata?.name} on ${NODE}`);
    await cluster.endPods(name);
  });

  it("keeps the finalizers of others where they are, and loses ours when no footprint holds it any more", async () => {
    await using berth = cluster.startBerth();
    const name = cluster.nextName();
    const others = ["test.berth.dev/a", "test.berth.dev/b"];
    await cluster.client.create(owners, { metadata: { namespace, name, finalizers: others } }, { namespace });
    const finalizers = (wanted: readonly string[]) =>
      eventually(async () => expect((await cluster.theOwner(name))?.metadata?.finalizers).toEqual(wanted));
    await finalizers([...others, FINALIZER]);
    berth.want(noFootprints());
    await finalizers(others);
    await cluster.client.patch(
      owners,
      { namespace, name },
      { type: "merge", body: { metadata: { finalizers: [] } } },
    );
  });
});

describe("an owner whose footprints change", () => {
  it("is let go by the document in a file that goes before the one of the cluster", async () => {
    const before = footprintsOf({});
    await using berth = cluster.startHolds(before);
    const name = await cluster.guarded(0);
    const sources = [documentsOf({ agent: holding() }, "config"), documentsOf({ agent: holding() })];
    berth.want(compileFootprints({ sources, before: before.footprints }));
    await cluster.deleteOwner(name);
    await cluster.gone(name);
    await eventually(() => expect(berth.held.size).toBe(0));
  });

  it("is let go by a document that has come to have a fault, when a file wants its label by now", async () => {
    const before = compileFootprints({ sources: [documentsOf({ a: holding() })] });
    await using berth = cluster.startHolds(before);
    const name = await cluster.guarded(0);
    const unreadable = [{ name: "a", message: "a typing error" }];
    const sources = [documentsOf({ b: SPEC }, "config"), { ...documentsOf({}), unreadable }];
    const after = compileFootprints({ sources, before: before.footprints });
    expect(after.footprints.map((it) => it.name)).toEqual(["b"]);
    berth.want(after);
    await cluster.deleteOwner(name);
    await cluster.gone(name);
  });

  it("goes on to be deleted when what it owns is completed while it waits", async () => {
    await using berth = cluster.startBerth({
      onDelete: "Wait",
      ownedResources: [{ group: "", version: "v1", resource: "configmaps" }],
    });
    const name = await cluster.guarded();
    await cluster.running(name);
    await cluster.deleteOwner(name);
    await eventually(() => expect(berth.held.of("cluster/agent")[0]?.pods).toHaveLength(1));
    berth.want(footprintsOf({}));
    await cluster.terminating(name);
    await cluster.endPods(name);
    await cluster.gone(name);
  });

  it("is let go by a second footprint that comes to hold it by a finalizer that stands already", async () => {
    const first = { agent: holding("test.berth.dev/a") };
    const other = "test.berth.dev/other";
    const finalizers = (wanted: readonly string[]) =>
      eventually(async () => expect((await cluster.theOwner(name))?.metadata?.finalizers).toEqual(wanted));
    await using berth = cluster.startHolds(compileFootprints({ sources: [documentsOf(first)] }));
    const name = cluster.nextName();
    await createOwner(cluster.client, { namespace, name, replicas: 0 });
    await finalizers(["test.berth.dev/a"]);
    const body = { metadata: { finalizers: [other, "test.berth.dev/a"] } };
    await cluster.client.patch(owners, { namespace, name }, { type: "merge", body });
    await cluster.deleteOwner(name);
    await finalizers([other]);
    const both = { ...first, second: holding(other, "test.berth.dev/second") };
    berth.want(compileFootprints({ sources: [documentsOf(both)] }));
    await cluster.gone(name);
  });
});
