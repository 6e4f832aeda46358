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
  createGateFixture,
  type GateFixture,
  hasTaint,
  ORIGINAL_TAINT,
  sharedGateCluster,
  stateOf,
} from "./gate-fixture.ts";

const GATE = "nodetaintshandler";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

/** A fixture with the drop-in at work. */
async function dropIn(name: string, options: { readonly server?: string } = {}): Promise<GateFixture> {
  await using owned = new AsyncDisposableStack();
  const fixture = owned.use(await createGateFixture(cluster, name));
  await fixture.start({ ...(await fixture.dropIn()), ...options });
  owned.move();
  return fixture;
}

describe("the drop-in for nodetaintshandler", () => {
  it("N-P5 takes the taint off a node whose init pod is ready, notes when, and writes once", async () => {
    await using fixture = await dropIn("p5");
    const other = "example.com/other=stays:NoExecute";
    await fixture.addHeld("n", (it) => it.tainted(other).annotated({ "example.com/note": "stays" }));
    await fixture.pod(fixture.init("n"), { ready: false });
    const before = await fixture.state("n", "held", GATE);
    const mark = await cluster.audit.mark();
    const earliest = Math.floor(Date.now() / 1000);
    await fixture.say({ name: "init-n" }, { ready: true });
    const after = await fixture.free("n");
    expect(taintsOf(after)).toEqual(taintsOf(before).filter((it) => it !== ORIGINAL_TAINT));
    expect(taintsOf(after)).toContain(other);
    expect(completedAt(after)).toMatch(/^\d+$/);
    expect(Number(completedAt(after))).toBeGreaterThanOrEqual(earliest);
    expect(Number(completedAt(after))).toBeLessThanOrEqual(Date.now() / 1000);
    expect(after.metadata?.annotations).toHaveProperty(["example.com/note"], "stays");
    await fixture.settled();
    expect(await fixture.nodeWrites(mark)).toEqual(["patch 200"]);
  });

  it("N-P8 asks neither for a namespace nor for an owner nor for a container status", async () => {
    await using fixture = await dropIn("p8-any");
    await fixture.addHeld("n");
    const anybodys = aPod("anybodys").labelled(originalGate.podLabels).on(fixture.nodeName("n"));
    await fixture.pod(anybodys, { ready: true, noContainers: true });
    expect(completedAt(await fixture.free("n"))).toMatch(/^\d+$/);
  });

  it("N-P10 releases a node that its kubelet registered with the taint, without any webhook", async () => {
    await using fixture = await dropIn("p10");
    await fixture.addHeld("n", (it) => it.notReady());
    await fixture.pod(fixture.init("n"), { ready: true });
    expect(completedAt(await fixture.free("n"))).toMatch(/^\d+$/);
  });

  it("N-P11 decides again after a conflict, and leaves one taint less and one annotation", async () => {
    const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
    await using proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
    await using fixture = await dropIn("p11", { server: proxy.url });
    await fixture.addHeld("n");
    await fixture.pod(fixture.init("n"), { ready: false });
    await fixture.state("n", "held", GATE);
    const mark = await cluster.audit.mark();
    const held = hold();
    using _rule = proxy.on({ verb: "patch", resource: "nodes" }, held, { times: 1 });
    await fixture.say({ name: "init-n" }, { ready: true });
    await held.until();
    await fixture.editNode("n", { metadata: { labels: { raced: "yes" } } });
    held.release();
    const after = await fixture.free("n");
    await fixture.settled();
    expect(await fixture.nodeWrites(mark)).toEqual(["patch 409", "patch 200"]);
    expect(after.metadata?.labels).toHaveProperty(["raced"], "yes");
    expect(completedAt(after)).toMatch(/^\d+$/);
    expect(completedAt(await fixture.readNode("n"))).toBe(completedAt(after));
  });

  it("N-P12 writes nothing on a node without the taint, and leaves its annotation as it is", async () => {
    await using fixture = await dropIn("p12");
    const mark = await cluster.audit.mark();
    await fixture.add("old", (it) => it.annotated({ [originalGate.completed]: "123" }));
    await fixture.add("plain");
    await fixture.pod(fixture.init("old"), { ready: true });
    await fixture.pod(fixture.init("plain"), { ready: true });
    await fixture.say({ name: "init-old" }, { ready: false });
    await fixture.say({ name: "init-old" }, { ready: true });
    await fixture.settled();
    expect(await fixture.nodeRequests(mark)).toEqual([]);
    expect(completedAt(await fixture.readNode("old"))).toBe("123");
    expect(stateOf(await fixture.readNode("plain"), GATE)).toBeUndefined();
  });

  it("N-P12 takes a taint that was removed by hand for a release, and does not put it back", async () => {
    await using fixture = await dropIn("p12-hand");
    await fixture.addHeld("n");
    await fixture.state("n", "held", GATE);
    const { spec } = await fixture.readNode("n");
    const taints = (spec?.taints ?? []).filter(({ key }) => key !== originalGate.taint.key);
    await fixture.editNode("n", { spec: { taints } });
    await fixture.state("n", "released", GATE);
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("n"))).toBe(false);
  });

  it("N-P13 gates idle nodes at the start with STARTUP_BACKFILL=1, and none that runs pods or was done", async () => {
    await using fixture = await createGateFixture(cluster, "p13");
    const busy = aPod("user").on(fixture.nodeName("busy"));
    for (const node of ["idle", "busy", "system", "done"]) {
      await fixture.add(node, (it) =>
        node === "done" ? it.annotated({ [originalGate.completed]: "9" }) : it,
      );
    }
    await fixture.addHeld("tainted");
    await fixture.pod(busy);
    await fixture.pod(aPod("agent").in("kube-system").on(fixture.nodeName("system")));
    await createNamespace(cluster, "kube-public");
    await fixture.pod(aPod("agent").in("kube-public").on(fixture.nodeName("system")));
    const mark = await cluster.audit.mark();
    await fixture.start({ ...(await fixture.dropIn()), backfillAtStart: true });
    await fixture.held("idle");
    await fixture.held("system");
    await fixture.state("tainted", "held", GATE);
    // Those of the start only: what comes later without the taint has missed the webhook.
    await fixture.add("later");
    await fixture.settled();
    for (const node of ["busy", "done", "later"]) expect(hasTaint(await fixture.readNode(node))).toBe(false);
    expect(completedAt(await fixture.readNode("done"))).toBe("9");
    expect(
      taintsOf(await fixture.readNode("tainted")).filter((it) => it.startsWith("startup.")),
    ).toHaveLength(1);
    for (const node of ["busy", "done", "later"]) expect(await fixture.nodeWrites(mark, node)).toEqual([]);
    for (const node of ["idle", "system", "tainted"])
      expect(await fixture.nodeWrites(mark, node)).toEqual(["patch 200"]);
  });

  it("I-21 gates no node that came after the start, though Berth's clock is ahead of the API server's", async () => {
    await using fixture = await createGateFixture(cluster, "i21");
    await fixture.add("idle");
    const mark = await cluster.audit.mark();
    const clock = { ...systemClock, now: () => systemClock.now() + 5000 };
    await fixture.start({ ...(await fixture.dropIn()), backfillAtStart: true, clock });
    await fixture.held("idle");
    await fixture.add("later");
    await fixture.settled();
    expect(await fixture.nodeWrites(mark, "later")).toEqual([]);
  });
});
