/**
 * The drop-in for nodetaintshandler on the whole product: what it did with nodes and pods, case by case as the contract
 * names them (N-P5 to N-P13). Writes are counted in the audit log. Its webhook is in `startup-gate-admission.cluster.test.ts`.
 */
import { originalGate } from "@berth/placement";
import { systemClock } from "@berth/runtime";
import { aPod, hold, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createNamespace, taintsOf } from "./fixture.ts";
import {
  completedAt,
  createGateStage,
  type GateStage,
  hasTaint,
  ORIGINAL_TAINT,
  sharedGateCluster,
  stateOf,
} from "./gate-world.ts";

const GATE = "nodetaintshandler";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

/** A stage with the drop-in at work. */
async function dropIn(name: string, options: { readonly server?: string } = {}): Promise<GateStage> {
  await using owned = new AsyncDisposableStack();
  const stage = owned.use(await createGateStage(cluster, name));
  await stage.start({ ...(await stage.dropIn()), ...options });
  owned.move();
  return stage;
}

describe("the drop-in for nodetaintshandler", () => {
  it("N-P5 takes the taint off a node whose init pod is ready, notes when, and writes once", async () => {
    await using stage = await dropIn("p5");
    const other = "example.com/other=stays:NoExecute";
    await stage.addHeld("n", (it) => it.tainted(other).annotated({ "example.com/note": "stays" }));
    await stage.pod(stage.init("n"), { ready: false });
    const before = await stage.state("n", "held", GATE);
    const mark = await cluster.audit.mark();
    const earliest = Math.floor(Date.now() / 1000);
    await stage.say({ name: "init-n" }, { ready: true });
    const after = await stage.free("n");
    expect(taintsOf(after)).toEqual(taintsOf(before).filter((it) => it !== ORIGINAL_TAINT));
    expect(taintsOf(after)).toContain(other);
    expect(completedAt(after)).toMatch(/^\d+$/);
    expect(Number(completedAt(after))).toBeGreaterThanOrEqual(earliest);
    expect(Number(completedAt(after))).toBeLessThanOrEqual(Date.now() / 1000);
    expect(after.metadata?.annotations).toHaveProperty(["example.com/note"], "stays");
    await stage.settled();
    expect(await stage.nodeWrites(mark)).toEqual(["patch 200"]);
  });

  it("N-P8 asks neither for a namespace nor for an owner nor for a container status", async () => {
    await using stage = await dropIn("p8-any");
    await stage.addHeld("n");
    const anybodys = aPod("anybodys").labelled(originalGate.podLabels).on(stage.nodeName("n"));
    await stage.pod(anybodys, { ready: true, noContainers: true });
    expect(completedAt(await stage.free("n"))).toMatch(/^\d+$/);
  });

  it("N-P10 releases a node that its kubelet registered with the taint, without any webhook", async () => {
    await using stage = await dropIn("p10");
    await stage.addHeld("n", (it) => it.notReady());
    await stage.pod(stage.init("n"), { ready: true });
    expect(completedAt(await stage.free("n"))).toMatch(/^\d+$/);
  });

  it("N-P11 decides again after a conflict, and leaves one taint less and one annotation", async () => {
    const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
    await using proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
    await using stage = await dropIn("p11", { server: proxy.url });
    await stage.addHeld("n");
    await stage.pod(stage.init("n"), { ready: false });
    await stage.state("n", "held", GATE);
    const mark = await cluster.audit.mark();
    const held = hold();
    using _rule = proxy.on({ verb: "patch", resource: "nodes" }, held, { times: 1 });
    await stage.say({ name: "init-n" }, { ready: true });
    await held.until();
    await stage.editNode("n", { metadata: { labels: { raced: "yes" } } });
    held.release();
    const after = await stage.free("n");
    await stage.settled();
    expect(await stage.nodeWrites(mark)).toEqual(["patch 409", "patch 200"]);
    expect(after.metadata?.labels).toHaveProperty(["raced"], "yes");
    expect(completedAt(after)).toMatch(/^\d+$/);
    expect(completedAt(await stage.readNode("n"))).toBe(completedAt(after));
  });

  it("N-P12 writes nothing on a node without the taint, and leaves its annotation as it is", async () => {
    await using stage = await dropIn("p12");
    const mark = await cluster.audit.mark();
    await stage.add("old", (it) => it.annotated({ [originalGate.completed]: "123" }));
    await stage.add("plain");
    await stage.pod(stage.init("old"), { ready: true });
    await stage.pod(stage.init("plain"), { ready: true });
    await stage.say({ name: "init-old" }, { ready: false });
    await stage.say({ name: "init-old" }, { ready: true });
    await stage.settled();
    expect(await stage.nodeRequests(mark)).toEqual([]);
    expect(completedAt(await stage.readNode("old"))).toBe("123");
    expect(stateOf(await stage.readNode("plain"), GATE)).toBeUndefined();
  });

  it("N-P12 takes a taint that was removed by hand for a release, and does not put it back", async () => {
    await using stage = await dropIn("p12-hand");
    await stage.addHeld("n");
    await stage.state("n", "held", GATE);
    const { spec } = await stage.readNode("n");
    const taints = (spec?.taints ?? []).filter(({ key }) => key !== originalGate.taint.key);
    await stage.editNode("n", { spec: { taints } });
    await stage.state("n", "released", GATE);
    await stage.settled();
    expect(hasTaint(await stage.readNode("n"))).toBe(false);
  });

  it("N-P13 gates idle nodes at the start with STARTUP_BACKFILL=1, and none that runs pods or was done", async () => {
    await using stage = await createGateStage(cluster, "p13");
    const busy = aPod("user").on(stage.nodeName("busy"));
    for (const node of ["idle", "busy", "system", "done"]) {
      await stage.add(node, (it) => (node === "done" ? it.annotated({ [originalGate.completed]: "9" }) : it));
    }
    await stage.addHeld("tainted");
    await stage.pod(busy);
    await stage.pod(aPod("agent").in("kube-system").on(stage.nodeName("system")));
    await createNamespace(cluster, "kube-public");
    await stage.pod(aPod("agent").in("kube-public").on(stage.nodeName("system")));
    const mark = await cluster.audit.mark();
    await stage.start({ ...(await stage.dropIn()), backfillAtStart: true });
    await stage.held("idle");
    await stage.held("system");
    await stage.state("tainted", "held", GATE);
    // Those of the start only: what comes later without the taint has missed the webhook.
    await stage.add("later");
    await stage.settled();
    for (const node of ["busy", "done", "later"]) expect(hasTaint(await stage.readNode(node))).toBe(false);
    expect(completedAt(await stage.readNode("done"))).toBe("9");
    expect(taintsOf(await stage.readNode("tainted")).filter((it) => it.startsWith("startup."))).toHaveLength(
      1,
    );
    for (const node of ["busy", "done", "later"]) expect(await stage.nodeWrites(mark, node)).toEqual([]);
    for (const node of ["idle", "system", "tainted"])
      expect(await stage.nodeWrites(mark, node)).toEqual(["patch 200"]);
  });

  it("I-21 gates no node that came after the start, though Berth's clock is ahead of the API server's", async () => {
    await using stage = await createGateStage(cluster, "i21");
    await stage.add("idle");
    const mark = await cluster.audit.mark();
    const clock = { ...systemClock, now: () => systemClock.now() + 5000 };
    await stage.start({ ...(await stage.dropIn()), backfillAtStart: true, clock });
    await stage.held("idle");
    await stage.add("later");
    await stage.settled();
    expect(await stage.nodeWrites(mark, "later")).toEqual([]);
  });
});
