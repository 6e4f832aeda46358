/**
 * Where node footprints go beyond agent-substrate's pull request 134, on the whole product with the real controllers: the
 * cases of the contract that no part of it proves alone. Writes are counted in the audit log.
 */
import { nodes, type Pod } from "@berth/kube";
import { type AuditMark, hold, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createLeapingClock } from "./clocks.ts";
import { CLAIM, LABEL, markedBy, type Pool, sharedFullCluster, UID_LABEL } from "./footprint-cluster.ts";
import { createDropInStage, createFootprintStage, type FootprintStage } from "./footprint-world.ts";
import { webhookAt } from "./gate-admission.ts";
import { patiently } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

const PR_134 = { preset: "agent-substrate/pr-134" };
/** Milliseconds. */
const IDLE_MS = 600_000;

const dropIn = (name: string): Promise<FootprintStage> => createDropInStage(cluster, name);

describe("marks of the footprint", () => {
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
    await stage.editNode(
      "empty",
      { metadata: { labels: { [LABEL]: "true" } } },
      { fieldManager: "kubectl-label" },
    );
    await stage.marked("empty");
    // Two own it: the field manager of the other keeps it where a server-side apply would take it off.
    const name = stage.nodeName("used");
    const body = { metadata: { name, labels: { [LABEL]: "true" }, annotations: { [claim]: "" } } };
    await cluster.client.apply(nodes, body, { fieldManager: "somebody", force: true });
    await stage.deletePod("a-1");
    await stage.marked("used");
  });

  it("F-B6 F-E7 make no ghost of a node that goes as they are written, though Berth could make nodes", async () => {
    await using stage = await createFootprintStage(cluster, "b6-gone");
    await using race = await raceOn(stage);
    await cluster.client.delete(nodes, { name: stage.nodeName("n") });
    race.release();
    await stage.settled();
    expect(await stage.nodeWrites(race.mark, "n")).toEqual([expect.stringMatching(/^patch 4(?:04|09)$/)]);
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
    const [first] = await stage.nodeWrites(race.mark, "n");
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
    expect(await stage.writes(rest)).toEqual([]);
    await stage.settled();
    expect(await stage.nodeWrites(rest)).toEqual([]);

    for (const pool of pools) await stage.editPool(pool, { spec: { replicas: 0 } });
    for (const node of used.keys()) await stage.marked(node);
    await stage.settled();
    const all = await stage.changes(start);
    expect(all.length).toBeLessThanOrEqual(2 * pairs);
    expect(new Set(all)).toEqual(new Set(["patch 200"]));
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
    expect(await stage.nodeWrites(mark, "n")).toEqual([]);
    await clock.leap(100_000);
    await stage.marked("n");
    expect(await stage.changes(mark, "n")).toEqual(["patch 200"]);
  });
});

describe("pods", () => {
  it("F-E9 with the uid of a pool that they do not belong to bring no agent, and hold no deletion", async () => {
    await using stage = await dropIn("e9");
    await stage.add("n");
    const [a, b] = [await stage.guarded(await stage.pool("a")), await stage.pool("b")];
    const mark = await cluster.audit.mark();
    const label = { [UID_LABEL]: a.uid };
    await stage.create(stage.stranger("nobodys").labelled(label).on(stage.nodeName("n")));
    await stage.create(stage.pod("of-another", b).labelled(label).on(stage.nodeName("n")));
    const { note } = await stage.event("FootprintGroupRefused", stage.nodeName("n"));
    expect(note).toContain(stage.name);
    await stage.deletePool(a);
    await stage.gone(() => stage.readPool(a));
    await stage.settled();
    expect(await stage.marksOf("n")).toEqual(markedBy());
    expect(await stage.nodeWrites(mark, "n")).toEqual([]);
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
    expect(await stage.nodeWrites(mark, "old")).toEqual([]);
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
