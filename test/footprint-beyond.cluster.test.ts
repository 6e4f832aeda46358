/**
 * Where node footprints go beyond agent-substrate's pull request 134, on the whole product with the real controllers: the
 * cases of the contract by name (F-B1 to F-B11). Writes are counted in the audit log.
 *
 * Long because all of it shares one cluster, which takes longer to start than most of it to run.
 */
import { nodes, type Pod } from "@berth/kube";
import { type AuditMark, hold, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import {
  CLAIM,
  FINALIZER,
  HOLD,
  LABEL,
  markedBy,
  marksOf,
  type Pool,
  sharedFullCluster,
  UID_LABEL,
} from "./footprint-cluster.ts";
import { createDropInStage, createFootprintStage, type FootprintStage } from "./footprint-world.ts";
import { createLeapingClock } from "./leaping-clock.ts";
import { patiently } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

const PR_134 = { preset: "agent-substrate/pr-134" };
const ASKING = { nodeSelector: { [LABEL]: "true" } };
/** Milliseconds. */
const IDLE_MS = 600_000;

const dropIn = (name: string): Promise<FootprintStage> => createDropInStage(cluster, name);

describe("a WorkerPool that is deleted while its pods run", () => {
  it.each(["Background", "Foreground"] as const)("F-B1 F-E1 is gone, with all of it: %s", async (how) => {
    await using stage = await dropIn(`b1-${how.toLowerCase()}`);
    await stage.add("n", (it) => it.fake());
    const a = await stage.guarded(await stage.pool("a", { replicas: 2 }));
    await stage.spread(a, 2);
    await stage.marked("n", a);
    await stage.deletePool(a, how);
    await stage.gone(() => stage.readPool(a));
    await stage.gone(() => stage.deploymentOf(a));
    await patiently(async () => expect(await stage.podsOf(a)).toEqual([]));
    await stage.marked("n");
  });

  it("F-B1 F-E1 is gone when it is orphaned, and its pods and their claims stay", async () => {
    await using stage = await dropIn("b1-orphan");
    await stage.add("n", (it) => it.fake());
    const a = await stage.guarded(await stage.pool("a", { replicas: 2 }));
    await stage.spread(a, 2);
    await stage.marked("n", a);
    const mark = await cluster.audit.mark();
    await stage.deletePool(a, "Orphan");
    await stage.gone(() => stage.readPool(a));
    await stage.settled();
    expect(await stage.spread(a, 2)).toEqual(["n", "n"]);
    expect(await stage.marksOf("n")).toEqual(markedBy(a));
    expect((await stage.deploymentOf(a)).metadata?.ownerReferences ?? []).toEqual([]);
    expect(await stage.writes(mark, "n")).toEqual([]);
  });

  it("F-B11 F-E12 names the unreachable node and the stuck pod it waits for, and is let go after its timeout", async () => {
    await using stage = await createFootprintStage(cluster, "b11");
    const clock = createLeapingClock();
    await stage.footprint("atelet", { ...PR_134, hold: { ...HOLD, timeout: "10m" } });
    await stage.start({ config: await stage.poolsOnly(), clock });
    await stage.add("n");
    const a = await stage.guarded(await stage.pool("a", { replicas: 1 }));
    await stage.spread(a, 1);
    await stage.marked("n", a);
    await cluster.client.patch(
      nodes,
      { name: stage.nodeName("n") },
      { type: "strategic", body: { status: { conditions: [{ type: "Ready", status: "Unknown" }] } } },
      { subresource: "status" },
    );
    await stage.deletePool(a);
    const { message } = await stage.condition("atelet", "OwnersHeld", "OwnerHeld");
    const [pod] = await stage.podsOf(a);
    const podName = `${stage.name}/${pod?.metadata?.name}`;
    expect(message).toContain(`${stage.name}/a`);
    await patiently(async () => {
      const { conditions = [], holds } = await stage.status("atelet");
      const said = conditions.find(({ type }) => type === "OwnersHeld")?.message;
      for (const part of [podName, stage.nodeName("n"), "silent"]) expect(said).toContain(part);
      expect(holds).toMatchObject([{ uid: a.uid, nodes: [stage.nodeName("n")], pods: [podName] }]);
    });
    const { note, type } = await stage.said("OwnerHeld", "a");
    expect(type).toBe("Warning");
    for (const part of [podName, stage.nodeName("n")]) expect(note).toContain(part);
    await clock.leap(300_000);
    expect((await stage.readPool(a)).metadata?.finalizers).toContain(FINALIZER);
    expect(await stage.events("OwnerHeld", "a")).toHaveLength(1);
    await clock.leap(301_000);
    await stage.gone(() => stage.readPool(a));
    expect((await stage.said("HoldTimedOut", "a")).note).toContain(podName);
    await stage.condition("atelet", "OwnersHeld", "NoOwnerHeld");
    // Nothing leaks: the pod keeps the node marked, and its end lets it go.
    expect(await stage.marksOf("n")).toEqual(markedBy(a));
    await stage.deletePod(pod?.metadata?.name ?? "");
    await stage.marked("n");
  });
});

describe("marks of the footprint", () => {
  it("F-B2 F-E2 go from a node whose last pod ended while Berth was away, and so does the pool", async () => {
    await using stage = await createFootprintStage(cluster, "b2");
    await stage.add("n");
    const first = await stage.start();
    const a = await stage.guarded(await stage.pool("a"));
    await stage.bound("a-1", a, "n");
    await stage.marked("n", a);
    await first[Symbol.asyncDispose]();
    await stage.deletePod("a-1");
    await stage.deletePool(a);
    expect(await stage.marksOf("n")).toEqual(markedBy(a));
    await stage.start();
    await stage.marked("n");
    await stage.gone(() => stage.readPool(a));
  });

  it("F-B3 F-E8 come back when somebody takes them off, and go where nobody needs them, whoever owns them as well", async () => {
    await using stage = await dropIn("b3");
    for (const name of ["used", "empty"]) await stage.add(name);
    const a = await stage.pool("a");
    await stage.bound("a-1", a, "used");
    await stage.marked("used", a);
    const claim = `${CLAIM}${a.uid}`;
    const mark = await cluster.audit.mark();
    await stage.editNode("used", { metadata: { labels: { [LABEL]: null } } });
    await stage.marked("used", a);
    await stage.editNode("used", { metadata: { annotations: { [claim]: null } } });
    await stage.marked("used", a);
    expect(await stage.changes(mark, "used")).toEqual(["patch 200", "patch 200"]);
    await stage.editNode("empty", { metadata: { labels: { [LABEL]: "true" } } }, "kubectl-label");
    await stage.marked("empty");
    // Two own it: the field manager of the other keeps it where a server-side apply would take it off.
    const name = stage.nodeName("used");
    const body = { metadata: { name, labels: { [LABEL]: "true" }, annotations: { [claim]: "" } } };
    await cluster.client.apply(nodes, body, { fieldManager: "somebody", force: true });
    await stage.deletePod("a-1");
    await stage.marked("used");
  });

  it("F-B3 that others have set are reported with Report, and stay", async () => {
    await using stage = await createFootprintStage(cluster, "b3-report");
    await stage.footprint("atelet", { ...PR_134, node: { foreign: "Report" } });
    await stage.start({ config: await stage.poolsOnly() });
    await stage.add("n");
    await stage.editNode("n", { metadata: { labels: { [LABEL]: "true" } } });
    const { status, message } = await stage.condition("atelet", "ForeignMarks", "ForeignFootprintMark");
    expect([status, message]).toEqual(["True", expect.stringContaining("one node")]);
    const { note } = await stage.said("ForeignFootprintMark", stage.nodeName("n"));
    expect(note).toContain(LABEL);
    await stage.settled();
    expect(await stage.marksOf("n")).toEqual({ label: "true", claims: [] });
    await stage.editNode("n", { metadata: { labels: { [LABEL]: null } } });
    await stage.condition("atelet", "ForeignMarks", "NoForeignMarks");
  });

  it("F-B4 F-E10 that are forged go, and hold no pool", async () => {
    await using stage = await dropIn("b4");
    await stage.add("n");
    const a = await stage.guarded(await stage.pool("a"));
    const forged = { [`${CLAIM}${a.uid}`]: "", [`${CLAIM}made-up`]: "x" };
    // As a kubelet may do to its own node; again and again.
    for (const fieldManager of ["kubelet", "kubelet-again"]) {
      const name = stage.nodeName("n");
      const body = { metadata: { name, annotations: forged } };
      await cluster.client.apply(nodes, body, { fieldManager, force: true });
      await stage.marked("n");
    }
    await stage.editNode("n", { metadata: { annotations: forged } });
    await stage.deletePool(a);
    await stage.gone(() => stage.readPool(a));
    expect(await stage.marked("n").then(marksOf)).toEqual(markedBy());
  });

  it("F-B4 F-E9 stand for real pods beside one with a forged label of 63 characters, which is told of once", async () => {
    await using stage = await dropIn("b4-label");
    await stage.add("n");
    const a = await stage.pool("a");
    const mark = await cluster.audit.mark();
    const value = `${"x".repeat(62)}x`;
    for (const name of ["forged-1", "forged-2"])
      await stage.create(
        stage
          .stranger(name)
          .labelled({ [UID_LABEL]: value })
          .on(stage.nodeName("n")),
      );
    await stage.bound("a-1", a, "n");
    await stage.marked("n", a);
    const { note, type } = await stage.said("FootprintGroupRefused", stage.nodeName("n"));
    expect(type).toBe("Warning");
    expect(note).toContain(`${stage.name}/forged-`);
    await stage.settled();
    expect(await stage.events("FootprintGroupRefused", stage.nodeName("n"))).toHaveLength(1);
    expect(await stage.changes(mark, "n")).toEqual(["patch 200"]);
    await stage.deletePod("a-1");
    await stage.marked("n");
  });

  it("F-B5 F-E4 go from a node where only pods are left that failed", async () => {
    await using stage = await dropIn("b5");
    await stage.add("n");
    const a = await stage.pool("a");
    await stage.bound("a-1", a, "n");
    await stage.say("a-1", "Running");
    await stage.marked("n", a);
    await stage.say("a-1", "Failed");
    await stage.marked("n");
    expect((await stage.readPod("a-1")).metadata?.deletionTimestamp).toBeUndefined();
  });

  it("F-B6 F-E7 come back on a node that is made again under its name, though no pod has changed", async () => {
    await using stage = await dropIn("b6");
    await stage.add("n");
    const a = await stage.pool("a");
    const { metadata } = await stage.bound("a-1", a, "n");
    const before = await stage.marked("n", a);
    await cluster.client.delete(nodes, { name: stage.nodeName("n") });
    await stage.add("n");
    const after = await stage.marked("n", a);
    expect(after.metadata?.uid).not.toBe(before.metadata?.uid);
    expect((await stage.readPod("a-1")).metadata?.resourceVersion).toBe(metadata?.resourceVersion);
  });

  it("F-B6 F-E7 make no ghost of a node that goes as they are written, though Berth could make nodes", async () => {
    await using stage = await createFootprintStage(cluster, "b6-gone");
    await using race = await raceOn(stage);
    await cluster.client.delete(nodes, { name: stage.nodeName("n") });
    race.release();
    await stage.settled();
    expect(await stage.writes(race.mark, "n")).toEqual([expect.stringMatching(/^patch 4(?:04|09)$/)]);
    await stage.gone(() => stage.readNode("n"));
  });

  it("F-B6 F-E7 meant for a node that is made again as they are written are decided for the new one", async () => {
    await using stage = await createFootprintStage(cluster, "b6-again");
    await using race = await raceOn(stage);
    await cluster.client.delete(nodes, { name: stage.nodeName("n") });
    const { metadata } = await stage.add("n");
    race.release();
    const after = await stage.marked("n", race.pool);
    expect(after.metadata?.uid).toBe(metadata?.uid);
    const [first] = await stage.writes(race.mark, "n");
    expect(first).toMatch(/^patch 4(?:09|22)$/);
    const changes = await stage.changes(race.mark, "n");
    expect(changes.filter((it) => it === "patch 200")).toHaveLength(1);
  });
});

describe("writes", () => {
  it("F-B7 for 100 pods of two pools on ten nodes, from their creation to their end, are two for each pool and node at most", async () => {
    await using stage = await createFootprintStage(cluster, "b7");
    const clock = createLeapingClock();
    const first = await stage.start({ clock });
    for (let at = 0; at < 10; at += 1) await stage.add(`n${at}`, (it) => it.fake());
    const start = await cluster.audit.mark();
    const pools = [await stage.pool("a"), await stage.pool("b")] as const;
    for (const pool of pools) await stage.editPool(pool, { spec: { replicas: 50 } });
    const used = new Map<string, Set<string>>();
    for (const pool of pools)
      for (const node of await stage.spread(pool, 50))
        used.set(node, (used.get(node) ?? new Set()).add(pool.uid));
    const pairs = [...used.values()].reduce((sum, on) => sum + on.size, 0);
    for (const [node, on] of used) await stage.marked(node, ...pools.filter(({ uid }) => on.has(uid)));
    for (const pool of pools)
      await patiently(async () => expect((await running(stage, pool.name)).length).toBe(50));
    expect((await stage.changes(start)).length).toBeLessThanOrEqual(pairs);

    // Ten idle minutes, and a restart: nothing is written, to whatever.
    await stage.settled();
    const rest = await cluster.audit.mark();
    await clock.leap(IDLE_MS);
    await first[Symbol.asyncDispose]();
    await stage.start();
    expect(await stage.allWrites(rest)).toEqual([]);
    await stage.settled();
    expect(await stage.writes(rest)).toEqual([]);

    for (const pool of pools) await stage.editPool(pool, { spec: { replicas: 0 } });
    for (const node of used.keys()) await stage.marked(node);
    await stage.settled();
    const all = await stage.changes(start);
    expect(all.length).toBeLessThanOrEqual(2 * pairs);
    expect(new Set(all)).toEqual(new Set(["patch 200"]));
  });

  it("F-B7 no other pod is watched, and so none is received", async () => {
    await using stage = await createFootprintStage(cluster, "b7-foreign");
    await stage.add("n");
    await stage.agent(ASKING);
    const mark = await cluster.audit.mark();
    await stage.start();
    await stage.settled();
    await patiently(async () => {
      const watches = (await stage.requests(mark, "pods")).filter(({ verb }) => verb === "watch");
      const selectors = watches.map(({ requestUri }) =>
        new URL(requestUri, cluster.url).searchParams.get("labelSelector"),
      );
      expect(new Set(selectors)).toEqual(new Set([UID_LABEL]));
    });
  });

  it("F-B9 F-E15 are none for a pod that is deleted and comes again within the delay, which begins anew with a restart", async () => {
    await using stage = await createFootprintStage(cluster, "b9");
    const clock = createLeapingClock();
    await stage.footprint("atelet", { ...PR_134, release: { delay: "150s" } });
    const options = { config: await stage.poolsOnly(), clock };
    const first = await stage.start(options);
    await stage.add("n");
    const a = await stage.pool("a");
    await stage.bound("a-1", a, "n");
    await stage.marked("n", a);
    const mark = await cluster.audit.mark();
    await stage.deletePod("a-1");
    await stage.settled();
    await clock.leap(50_000);
    await stage.bound("a-2", a, "n");
    await stage.settled();
    await clock.leap(300_000);
    expect(await stage.marksOf("n")).toEqual(markedBy(a));
    await stage.deletePod("a-2");
    await stage.settled();
    // Where real time goes by as well, nothing that is expected hangs on less than half a minute of it.
    await clock.leap(120_000);
    await first[Symbol.asyncDispose]();
    await stage.start(options);
    await stage.settled();
    await clock.leap(100_000);
    expect(await stage.marksOf("n")).toEqual(markedBy(a));
    expect(await stage.writes(mark, "n")).toEqual([]);
    await clock.leap(100_000);
    await stage.marked("n");
    expect(await stage.changes(mark, "n")).toEqual(["patch 200"]);
  });
});

describe("the agent", () => {
  it("F-B8 F-E16 that does not tolerate the taint of a node is told of with both, until it does", async () => {
    await using stage = await createFootprintStage(cluster, "b8");
    await stage.footprint("atelet", PR_134);
    await stage.start({ config: await stage.poolsOnly() });
    await stage.agent(ASKING);
    await stage.add("n", (it) => it.fake().tainted("ate.dev/sandboxClass=microvm:NoSchedule"));
    // As pools of class microvm do.
    const a = await stage.pool("a", { replicas: 1, template: { tolerations: [{ operator: "Exists" }] } });
    await stage.spread(a, 1);
    await stage.marked("n", a);
    const { status, message } = await stage.condition("atelet", "AgentPlaced", "AgentUnschedulable");
    expect(status).toBe("False");
    for (const part of [stage.nodeName("n"), "ate.dev/sandboxClass=microvm:NoSchedule"])
      expect(message).toContain(part);
    await patiently(async () => expect((await stage.status("atelet")).nodes?.agentUnschedulable).toBe(1));
    const template = {
      spec: { tolerations: [{ operator: "Exists" }], priorityClassName: "system-node-critical" },
    };
    await stage.editAgent({ spec: { template } });
    await stage.agentsOn("n");
    await stage.condition("atelet", "AgentPlaced", "AgentPlaced");
    await patiently(async () =>
      expect((await stage.status("atelet")).nodes).toMatchObject({ agentReady: 1, agentUnschedulable: 0 }),
    );
  });

  it("F-B10 F-E14 is brought to pods without the label by their owners, and no pod is restarted", async () => {
    await using stage = await createFootprintStage(cluster, "b10");
    // Their Deployments are those of agent-substrate's main branch.
    const config = await stage.poolsOnly("uidLabel: false");
    const before = await stage.start({ config });
    await stage.add("n", (it) => it.fake());
    const a = await stage.pool("a", { replicas: 2 });
    await stage.spread(a, 2);
    const uids = (found: readonly Pod[]): ReadonlySet<string | undefined> =>
      new Set(found.map(({ metadata }) => metadata?.uid));
    const running = uids(await stage.podsOf(a));
    await before[Symbol.asyncDispose]();
    await stage.footprint("atelet", { preset: "agent-substrate/owner-uid" });
    await stage.start({ config });
    await stage.marked("n", a);
    await stage.guarded(a);
    const found = await stage.podsOf(a);
    expect(uids(found)).toEqual(running);
    for (const { metadata } of found) expect(metadata?.labels).not.toHaveProperty([UID_LABEL]);
    await stage.deletePool(a);
    await stage.gone(() => stage.readPool(a));
    await stage.marked("n");
  });
});

/** Pods of the pool that say they run. */
async function running(stage: FootprintStage, pool: string): Promise<readonly Pod[]> {
  return (await stage.podsOf({ name: pool, uid: "" })).filter(({ status }) => status?.phase === "Running");
}

interface Race extends AsyncDisposable {
  readonly pool: Pool;
  readonly mark: AuditMark;
  /** Lets the write go on. */
  release(): void;
}

/** A Berth that may do everything, whose first write to the node `n` has been sent and not yet arrived. */
async function raceOn(stage: FootprintStage): Promise<Race> {
  await using owned = new AsyncDisposableStack();
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const proxy = owned.use(await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate }));
  const berth = await stage.start({ server: proxy.url });
  owned.use(berth);
  await stage.add("n");
  const pool = await stage.pool("a");
  const mark = await cluster.audit.mark();
  const held = hold();
  proxy.on({ verb: "patch", resource: "nodes", name: stage.nodeName("n") }, held, { times: 1 });
  await stage.bound("a-1", pool, "n");
  await held.until();
  const stack = owned.move();
  return {
    pool,
    mark,
    release: () => held.release(),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
