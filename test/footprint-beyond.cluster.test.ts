/**
 * Where node footprints go beyond agent-substrate's pull request 134, on the whole product with the real controllers: the
 * cases of the contract that no part of it proves alone. Writes are counted in the audit log.
 */
import { nodes, type Pod } from "@berth/kube";
import { type AuditMark, hold, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createLeapingClock } from "./clocks.ts";
import { CLAIM, LABEL, markedBy, type Pool, sharedFullCluster, UID_LABEL } from "./footprint-cluster.ts";
import { createDropInFixture, createFootprintFixture, type FootprintFixture } from "./footprint-fixture.ts";
import { webhookAt } from "./gate-admission.ts";
import { patiently } from "./patience.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedFullCluster();
});

const PR_134 = { preset: "agent-substrate/pr-134" };
/** Milliseconds. */
const IDLE_MS = 600_000;

const dropIn = (name: string): Promise<FootprintFixture> => createDropInFixture(cluster, name);

describe("marks of the footprint", () => {
  it("F-B3 F-E8 come back when somebody takes them off, and go where nobody needs them, whoever owns them as well", async () => {
    await using fixture = await dropIn("b3");
    for (const name of ["used", "empty"]) await fixture.add(name);
    const a = await fixture.pool("a");
    await fixture.bound("a-1", a, "used");
    await fixture.marked("used", a);
    const claim = `${CLAIM}${a.uid}`;
    const mark = await cluster.audit.mark();
    await fixture.editNode("used", { metadata: { labels: { [LABEL]: null } } });
    await fixture.marked("used", a);
    await fixture.editNode("used", { metadata: { annotations: { [claim]: null } } });
    await fixture.marked("used", a);
    expect(await fixture.changes(mark, "used")).toEqual(["patch 200", "patch 200"]);
    await fixture.editNode(
      "empty",
      { metadata: { labels: { [LABEL]: "true" } } },
      { fieldManager: "kubectl-label" },
    );
    await fixture.marked("empty");
    // Two own it: the field manager of the other keeps it where a server-side apply would take it off.
    const name = fixture.nodeName("used");
    const body = { metadata: { name, labels: { [LABEL]: "true" }, annotations: { [claim]: "" } } };
    await cluster.client.apply(nodes, body, { fieldManager: "somebody", force: true });
    await fixture.deletePod("a-1");
    await fixture.marked("used");
  });

  it("F-B6 F-E7 make no ghost of a node that goes as they are written, though Berth could make nodes", async () => {
    await using fixture = await createFootprintFixture(cluster, "b6-gone");
    await using race = await raceOn(fixture);
    await cluster.client.delete(nodes, { name: fixture.nodeName("n") });
    race.release();
    await fixture.settled();
    expect(await fixture.nodeWrites(race.mark, "n")).toEqual([expect.stringMatching(/^patch 4(?:04|09)$/)]);
    await fixture.gone(() => fixture.readNode("n"));
  });

  it("F-B6 F-E7 meant for a node that is made again as they are written are decided for the new one", async () => {
    await using fixture = await createFootprintFixture(cluster, "b6-again");
    await using race = await raceOn(fixture);
    await cluster.client.delete(nodes, { name: fixture.nodeName("n") });
    const { metadata } = await fixture.add("n");
    race.release();
    const after = await fixture.marked("n", race.pool);
    expect(after.metadata?.uid).toBe(metadata?.uid);
    const [first] = await fixture.nodeWrites(race.mark, "n");
    expect(first).toMatch(/^patch 4(?:09|22)$/);
    const changes = await fixture.changes(race.mark, "n");
    expect(changes.filter((it) => it === "patch 200")).toHaveLength(1);
  });
});

describe("writes", () => {
  it("F-B7 for 100 pods of two pools on ten nodes, from their creation to their end, are two for each pool and node at most", async () => {
    await using fixture = await createFootprintFixture(cluster, "b7");
    const clock = createLeapingClock();
    const first = await fixture.start({ clock });
    for (let at = 0; at < 10; at += 1) await fixture.add(`n${at}`, (it) => it.fake());
    const start = await cluster.audit.mark();
    const pools = [await fixture.pool("a"), await fixture.pool("b")] as const;
    for (const pool of pools) await fixture.editPool(pool, { spec: { replicas: 50 } });
    const used = new Map<string, Set<string>>();
    for (const pool of pools)
      for (const node of await fixture.spread(pool, 50))
        used.set(node, (used.get(node) ?? new Set()).add(pool.uid));
    const pairs = [...used.values()].reduce((sum, on) => sum + on.size, 0);
    for (const [node, on] of used) await fixture.marked(node, ...pools.filter(({ uid }) => on.has(uid)));
    for (const pool of pools)
      await patiently(async () => expect((await running(fixture, pool.name)).length).toBe(50));
    expect((await fixture.changes(start)).length).toBeLessThanOrEqual(pairs);

    // Ten idle minutes, and a restart: nothing is written, to whatever.
    await fixture.settled();
    const rest = await cluster.audit.mark();
    await clock.leap(IDLE_MS);
    await first[Symbol.asyncDispose]();
    await fixture.start();
    expect(await fixture.writes(rest)).toEqual([]);
    await fixture.settled();
    expect(await fixture.nodeWrites(rest)).toEqual([]);

    for (const pool of pools) await fixture.editPool(pool, { spec: { replicas: 0 } });
    for (const node of used.keys()) await fixture.marked(node);
    await fixture.settled();
    const all = await fixture.changes(start);
    expect(all.length).toBeLessThanOrEqual(2 * pairs);
    expect(new Set(all)).toEqual(new Set(["patch 200"]));
  });

  it("F-B9 F-E15 are none for a pod that is deleted and comes again within the delay, which begins anew with a restart", async () => {
    await using fixture = await createFootprintFixture(cluster, "b9");
    const clock = createLeapingClock();
    await fixture.footprint("atelet", { ...PR_134, release: { delay: "150s" } });
    const options = { config: await fixture.poolsOnly(), clock };
    const first = await fixture.start(options);
    await fixture.add("n");
    const a = await fixture.pool("a");
    await fixture.bound("a-1", a, "n");
    await fixture.marked("n", a);
    const mark = await cluster.audit.mark();
    await fixture.deletePod("a-1");
    await fixture.settled();
    await clock.leap(50_000);
    await fixture.bound("a-2", a, "n");
    await fixture.settled();
    await clock.leap(300_000);
    expect(await fixture.marksOf("n")).toEqual(markedBy(a));
    await fixture.deletePod("a-2");
    await fixture.settled();
    // Where real time goes by as well, nothing that is expected hangs on less than half a minute of it.
    await clock.leap(120_000);
    await first[Symbol.asyncDispose]();
    await fixture.start(options);
    await fixture.settled();
    await clock.leap(100_000);
    expect(await fixture.marksOf("n")).toEqual(markedBy(a));
    expect(await fixture.nodeWrites(mark, "n")).toEqual([]);
    await clock.leap(100_000);
    await fixture.marked("n");
    expect(await fixture.changes(mark, "n")).toEqual(["patch 200"]);
  });
});

describe("pods", () => {
  it("F-E9 with the uid of a pool that they do not belong to bring no agent, and hold no deletion", async () => {
    await using fixture = await dropIn("e9");
    await fixture.add("n");
    const [a, b] = [await fixture.guarded(await fixture.pool("a")), await fixture.pool("b")];
    const mark = await cluster.audit.mark();
    const label = { [UID_LABEL]: a.uid };
    await fixture.create(fixture.stranger("nobodys").labelled(label).on(fixture.nodeName("n")));
    await fixture.create(fixture.pod("of-another", b).labelled(label).on(fixture.nodeName("n")));
    const { note } = await fixture.event("FootprintGroupRefused", fixture.nodeName("n"));
    expect(note).toContain(fixture.name);
    await fixture.deletePool(a);
    await fixture.gone(() => fixture.readPool(a));
    await fixture.settled();
    expect(await fixture.marksOf("n")).toEqual(markedBy());
    expect(await fixture.nodeWrites(mark, "n")).toEqual([]);
  });
});

describe("a pool", () => {
  it("F-E11 that takes over the Deployment of one before it is claimed for beside it, until that one's last pod is gone", async () => {
    await using fixture = await dropIn("e11");
    await fixture.add("old");
    const before = await fixture.guarded(await fixture.pool("a", { replicas: 1 }));
    await fixture.spread(before, 1);
    await fixture.marked("old", before);
    const [pod] = await fixture.podsOf(before);
    await fixture.deletePool(before, "Orphan");
    await fixture.gone(() => fixture.readPool(before));
    await fixture.editNode("old", { spec: { unschedulable: true } });
    await fixture.add("new", (it) => it.fake());
    const mark = await cluster.audit.mark();
    const after = await fixture.pool("a", { replicas: 1 });
    await fixture.marked("new", after);
    // Of the rollout: the new pod is ready. The old one ends, and nobody is there to end it.
    await patiently(async () => {
      const found = await fixture.readPod(pod?.metadata?.name ?? "");
      expect(found.metadata?.deletionTimestamp).toBeDefined();
    });
    await fixture.settled();
    expect(await fixture.marksOf("old")).toEqual(markedBy(before));
    expect(await fixture.nodeWrites(mark, "old")).toEqual([]);
    await fixture.deletePod(pod?.metadata?.name ?? "");
    await fixture.marked("old");
  });

  it("F-E17 whose pods are to wait has one container in each, with the image and the deadline that are asked for", async () => {
    await using fixture = await createFootprintFixture(cluster, "e17");
    const config = await fixture.poolsOnly("uidLabel: false");
    const image = `registry.test/wait@sha256:${"0".repeat(64)}`;
    const wait = { inject: "Webhook", container: { image, timeout: "90s" } };
    await fixture.footprint("atelet", { preset: "agent-substrate/owner-uid", wait });
    const { admission } = await webhookAt();
    await fixture.start({ config, admission });
    await fixture.condition("atelet", "PodsWait", "AdmissionByWebhook");
    const a = await fixture.pool("a", { replicas: 1 });
    const [pod] = await patiently(async () => {
      const found = await fixture.podsOf(a);
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
async function running(fixture: FootprintFixture, pool: string): Promise<readonly Pod[]> {
  return (await fixture.podsOf({ name: pool, uid: "" })).filter(({ status }) => status?.phase === "Running");
}

interface Race extends AsyncDisposable {
  readonly pool: Pool;
  readonly mark: AuditMark;
  /** Lets the write go on. */
  release(): void;
}

/** A Berth that may do everything, whose first write to the node `n` has been sent and not yet arrived. */
async function raceOn(fixture: FootprintFixture): Promise<Race> {
  await using owned = new AsyncDisposableStack();
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const proxy = owned.use(await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate }));
  const berth = await fixture.start({ server: proxy.url });
  owned.use(berth);
  await fixture.add("n");
  const pool = await fixture.pool("a");
  const mark = await cluster.audit.mark();
  const held = hold();
  proxy.on({ verb: "patch", resource: "nodes", name: fixture.nodeName("n") }, held, { times: 1 });
  await fixture.bound("a-1", pool, "n");
  await held.until();
  const stack = owned.move();
  return {
    pool,
    mark,
    release: () => held.release(),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
