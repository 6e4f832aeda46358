/**
 * Edge cases of node footprints on the whole product with the real controllers: those of the contract (F-E1 to F-E19) that
 * neither parity with agent-substrate's pull request 134 nor what goes beyond it shows, where they are named as well.
 */
import { deployments, type KubeObject, pods } from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { FINALIZER, HOLD, LABEL, markedBy, sharedFullCluster, UID_LABEL } from "./footprint-cluster.ts";
import { createDropInStage, createFootprintStage, type FootprintStage } from "./footprint-world.ts";
import { webhookAt } from "./gate-admission.ts";
import { patiently } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

const PR_134 = { preset: "agent-substrate/pr-134" };
const ASKING = { nodeSelector: { [LABEL]: "true" } };

const dropIn = (name: string): Promise<FootprintStage> => createDropInStage(cluster, name);

describe("pods", () => {
  it("F-E5 F-E19 that are drained to another node take the agent along, and it stays as long as they do", async () => {
    await using stage = await dropIn("e19");
    await stage.add("from", (it) => it.fake());
    await stage.agent(ASKING);
    const a = await stage.pool("a", { replicas: 1 });
    await stage.spread(a, 1);
    await stage.marked("from", a);
    await stage.agentsOn("from");
    const mark = await cluster.audit.mark();
    await stage.editNode("from", { spec: { unschedulable: true } });
    await stage.settled();
    await stage.agentsOn("from");
    expect(await stage.marksOf("from")).toEqual(markedBy(a));
    await stage.add("to", (it) => it.fake());
    const [pod] = await stage.podsOf(a);
    const of = stage.in(pod?.metadata?.name ?? "");
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: of };
    await cluster.client.create<KubeObject>(pods, eviction, {
      namespace: of.namespace,
      subresource: "eviction",
    });
    await stage.marked("to", a);
    await stage.marked("from");
    await stage.agentsOn("to");
    for (const node of ["from", "to"]) expect(await stage.changes(mark, node)).toEqual(["patch 200"]);
  });

  it("F-E6 whose label is taken away or changed no longer count for what it said", async () => {
    await using stage = await dropIn("e6");
    for (const node of ["taken", "changed"]) await stage.add(node);
    const [a, b] = [await stage.pool("a"), await stage.pool("b")];
    for (const node of ["taken", "changed"]) {
      await stage.bound(node, a, node);
      await stage.marked(node, a);
    }
    await stage.editPod("taken", { metadata: { labels: { [UID_LABEL]: null } } });
    await stage.marked("taken");
    await stage.editPod("changed", { metadata: { labels: { [UID_LABEL]: b.uid } } });
    await stage.marked("changed");
    const { note } = await stage.said("FootprintGroupRefused", stage.nodeName("changed"));
    expect(note).toContain(`${stage.name}/changed`);
    await stage.editPod("changed", { metadata: { labels: { [UID_LABEL]: a.uid } } });
    await stage.marked("changed", a);
  });

  it("F-E9 with the uid of a pool that they do not belong to bring no agent, and hold no deletion", async () => {
    await using stage = await dropIn("e9");
    await stage.add("n");
    const [a, b] = [await stage.guarded(await stage.pool("a")), await stage.pool("b")];
    const mark = await cluster.audit.mark();
    const label = { [UID_LABEL]: a.uid };
    await stage.create(stage.stranger("nobodys").labelled(label).on(stage.nodeName("n")));
    await stage.create(stage.pod("of-another", b).labelled(label).on(stage.nodeName("n")));
    const { note } = await stage.said("FootprintGroupRefused", stage.nodeName("n"));
    expect(note).toContain(stage.name);
    await stage.deletePool(a);
    await stage.gone(() => stage.readPool(a));
    await stage.settled();
    expect(await stage.marksOf("n")).toEqual(markedBy());
    expect(await stage.writes(mark, "n")).toEqual([]);
  });

  it("F-E13 without a node keep their pool waiting, and are claimed for when they get one after all", async () => {
    await using stage = await createFootprintStage(cluster, "e13");
    // Somebody else deletes what the pool owns, and takes a while.
    await stage.footprint("atelet", { ...PR_134, hold: { ...HOLD, onDelete: "Wait" } });
    await stage.start({ config: await stage.poolsOnly() });
    const a = await stage.guarded(await stage.pool("a", { replicas: 1 }));
    await patiently(async () => expect(await stage.podsOf(a)).toHaveLength(1));
    await stage.deletePool(a);
    await stage.settled();
    expect((await stage.readPool(a)).metadata?.finalizers).toContain(FINALIZER);
    await stage.add("n", (it) => it.fake());
    await stage.spread(a, 1);
    await stage.marked("n", a);
    await cluster.client.delete(deployments, stage.in("a-deployment"));
    await stage.gone(() => stage.readPool(a));
    await stage.marked("n");
  });
});

describe("a pool", () => {
  it("F-E11 that takes over the Deployment of one before it is claimed for beside it, until that one's last pod is gone", async () => {
    await using stage = await dropIn("e11");
    await stage.add("old");
    const before = await stage.guarded(await stage.pool("a", { replicas: 1 }));
    await stage.spread(before, 1);
    await stage.marked("old", before);
    const [pod] = await stage.podsOf(before);
    await stage.deletePool(before, "Orphan");
    await stage.gone(() => stage.readPool(before));
    await stage.editNode("old", { spec: { unschedulable: true } });
    await stage.add("new", (it) => it.fake());
    const mark = await cluster.audit.mark();
    const after = await stage.pool("a", { replicas: 1 });
    await stage.marked("new", after);
    // Of the rollout: the new pod is ready. The old one ends, and nobody is there to end it.
    await patiently(async () => {
      const found = await stage.readPod(pod?.metadata?.name ?? "");
      expect(found.metadata?.deletionTimestamp).toBeDefined();
    });
    await stage.settled();
    expect(await stage.marksOf("old")).toEqual(markedBy(before));
    expect(await stage.writes(mark, "old")).toEqual([]);
    await stage.deletePod(pod?.metadata?.name ?? "");
    await stage.marked("old");
  });

  it("F-E17 whose pods are to wait has one container in each, with the image and the deadline that are asked for", async () => {
    await using stage = await createFootprintStage(cluster, "e17");
    const config = await stage.poolsOnly("uidLabel: false");
    const image = `registry.test/wait@sha256:${"0".repeat(64)}`;
    const wait = { inject: "Webhook", container: { image, timeout: "90s" } };
    await stage.footprint("atelet", { preset: "agent-substrate/owner-uid", wait });
    const { admission } = await webhookAt();
    await stage.start({ config, admission });
    await stage.condition("atelet", "PodsWait", "AdmissionByWebhook");
    const a = await stage.pool("a", { replicas: 1 });
    const [pod] = await patiently(async () => {
      const found = await stage.podsOf(a);
      expect(found).toHaveLength(1);
      return found;
    });
    const [container, ...others] = pod?.spec?.initContainers ?? [];
    expect(container).toMatchObject({ name: "wait-for-atelet", image });
    expect(container?.command?.join(" ")).toContain("90");
    expect(others).toEqual([]);
  });
});

describe("the agent", () => {
  it("F-E14 with Manage follows by itself, once every node with a pod that needs it is marked", async () => {
    await using stage = await createFootprintStage(cluster, "e14");
    for (const node of ["used", "idle"]) await stage.add(node, (it) => it.fake());
    await stage.agent();
    await stage.agentsOn("used", "idle");
    const first = await stage.start();
    const a = await stage.pool("a");
    await stage.bound("a-1", a, "used");
    await stage.marked("used", a);
    await stage.agentsOn("used", "idle");
    await first[Symbol.asyncDispose]();
    await stage.footprint("atelet", { ...PR_134, agent: { nodeSelector: "Manage" } });
    const mark = await cluster.audit.mark();
    await stage.start({ config: await stage.poolsOnly() });
    await stage.agentsOn("used");
    expect((await stage.readAgent()).spec?.template.spec?.nodeSelector).toEqual(ASKING.nodeSelector);
    const written = await stage.allWrites(mark, "daemonsets.apps");
    // Its controller writes to it as well, and may be met.
    const stored = written.filter(({ code }) => code !== 409);
    expect(stored.map(({ verb, code }) => `${verb} ${code}`)).toEqual(["patch 200"]);
  });
});

describe("two", () => {
  it("F-E18 Berths with one Lease: one writes, and the other goes on where it ends", async () => {
    await using stage = await createFootprintStage(cluster, "e18");
    const lease = { namespace: stage.name, name: "berth" };
    const one = await stage.start({ lease, identity: "one" });
    await stage.start({ lease, identity: "two" });
    const mark = await cluster.audit.mark();
    for (const node of ["n0", "n1"]) await stage.add(node);
    const a = await stage.pool("a");
    await stage.bound("a-0", a, "n0");
    await stage.marked("n0", a);
    await one[Symbol.asyncDispose]();
    await stage.bound("a-1", a, "n1");
    await stage.deletePod("a-0");
    await stage.marked("n1", a);
    await stage.marked("n0");
    expect(await stage.changes(mark)).toEqual(["patch 200", "patch 200", "patch 200"]);
  });

  it("footprints that want one label are refused, each with the name of the other, and what stands stays", async () => {
    await using stage = await createFootprintStage(cluster, "two");
    await stage.footprint("one", PR_134);
    await stage.start({ config: await stage.poolsOnly() });
    await stage.add("n");
    const a = await stage.pool("a");
    await stage.bound("a-1", a, "n");
    await stage.marked("n", a);
    await stage.condition("one", "Ready", "FootprintInForce");
    const mark = await cluster.audit.mark();
    await stage.footprint("two", PR_134);
    for (const [name, other] of [["one", "cluster/two"] as const, ["two", "cluster/one"] as const]) {
      const { message } = await stage.condition(name, "Ready", "FootprintOverlap");
      for (const part of [other, LABEL]) expect(message).toContain(part);
    }
    const marked = async (): Promise<void> => expect(await stage.marksOf("n")).toEqual(markedBy(a));
    await marked();
    await cluster.client.delete(nodeFootprints, { name: "two" });
    await stage.condition("one", "Ready", "FootprintInForce");
    await marked();
    expect(await stage.writes(mark, "n")).toEqual([]);
  });
});
