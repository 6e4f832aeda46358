/** An informer through crashes, dead links and compacted history of a real control plane. `T-n`: see "Traps" in the README. */
import { type ConfigMap, configMaps, namespaces } from "@berth/kube";
import {
  eventually,
  restoreSharedTestClusters,
  sharedTestCluster,
  startTcpProxy,
  startTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { afterEach, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "./clock.ts";
import { differencesFrom, type LiveInformer, startInformer } from "./testing/live-informer.ts";

const NAMESPACE = "outage";
const SCOPE = { namespace: NAMESPACE };

/** ConfigMaps of these names, and an informer of them behind a link that can fail. */
async function setUp(cluster: TestCluster, names: readonly string[], clock: Clock = systemClock) {
  await using undo = new AsyncDisposableStack();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
  for (const name of names) await create(cluster, name);
  const link = undo.use(await startTcpProxy({ target: new URL(cluster.url) }));
  const client = undo.use(cluster.connect({ server: link.url, silenceMs: 30_000 }));
  const live = undo.use(await startInformer({ client, resource: configMaps, scope: SCOPE, clock }));
  const owned = undo.move();
  return { link, live, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const create = (cluster: TestCluster, name: string): Promise<ConfigMap> =>
  cluster.client.create(configMaps, { metadata: { name } }, SCOPE);

const change = (cluster: TestCluster, name: string): Promise<ConfigMap> =>
  cluster.client.patch(configMaps, { ...SCOPE, name }, { type: "merge", body: { data: { changed: "yes" } } });

const remove = (cluster: TestCluster, name: string): Promise<void> =>
  cluster.client.delete(configMaps, { ...SCOPE, name });

const untilEqual = (cluster: TestCluster, live: LiveInformer<ConfigMap>): Promise<void> =>
  eventually(async () =>
    expect(await differencesFrom(live, cluster.client, { resource: configMaps, scope: SCOPE })).toEqual([]),
  );

afterEach(() => restoreSharedTestClusters());

describe("an API server that crashes", () => {
  it("T-2 is found again; it is a problem only when it lasts; what changed not is not told again", async () => {
    const cluster = await sharedTestCluster();
    // What lasts long is told by this clock alone, and not by a machine that stands still.
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };
    await using setup = await setUp(cluster, ["a", "b"], clock);
    const { live } = setup;
    await cluster.stopComponent("kube-apiserver", "SIGKILL");
    await eventually(() =>
      expect(live.metrics.value("informer_failures_total", labels("unreachable"))).toBeGreaterThan(0),
    );
    expect(live.informer.problem()).toBeUndefined();
    expect(live.names()).toEqual(["a", "b"]);
    aheadMs = 60_000;
    expect(live.informer.problem()).toMatch(/^not connected for \d+ s: .* could not be reached/);
    await cluster.startComponent("kube-apiserver");
    await change(cluster, "a");
    await remove(cluster, "b");
    await create(cluster, "c");
    await untilEqual(cluster, live);
    await eventually(() => expect(live.informer.problem()).toBeUndefined());
    const told = live.history.log.slice(2).map((line) => line.replace(" (initial)", ""));
    expect(told.sort()).toEqual(["added c", "deleted b", "updated a"]);
  });
});

it("history that is gone T-6 costs no end of an object, nor of one made again under its name", async () => {
  const cluster = await sharedTestCluster();
  await using setup = await setUp(cluster, ["gone", "kept", "again", "changed"]);
  const { link, live } = setup;
  const kept = live.get("kept", NAMESPACE);
  link.refuse();
  link.resetAll();
  await remove(cluster, "gone");
  await remove(cluster, "again");
  await create(cluster, "again");
  await change(cluster, "changed");
  await create(cluster, "new");
  await cluster.compact();
  await cluster.stopComponent("kube-apiserver");
  await cluster.startComponent("kube-apiserver");
  link.pass();
  await untilEqual(cluster, live);
  expect(live.metrics.value("informer_failures_total", labels("expired"))).toBe(1);
  const told = ["added again (initial)", "added new (initial)", "deleted again", "deleted gone"];
  expect(live.history.log.slice(4).sort()).toEqual([...told, "updated changed"]);
  expect(live.get("kept", NAMESPACE)).toBe(kept);
});

it("a server without streamed snapshots T-14 is asked for pages, at once and from then on", async () => {
  await using cluster = await startTestCluster({
    flags: { "kube-apiserver": ["--feature-gates=WatchList=false"] },
  });
  await using setup = await setUp(cluster, ["a", "b"]);
  const { link, live } = setup;
  link.refuse();
  link.resetAll();
  await remove(cluster, "a");
  await cluster.compact();
  await cluster.stopComponent("kube-apiserver");
  await cluster.startComponent("kube-apiserver");
  link.pass();
  await untilEqual(cluster, live);
  const snapshots = (how: string): number | undefined =>
    live.metrics.value("informer_snapshots_total", { ...labels(), how });
  // A page may be asked for again, where the server was not ready for it.
  expect(snapshots("stream")).toBe(1);
  expect(snapshots("pages")).toBeGreaterThanOrEqual(2);
  expect(live.history.log.slice(2)).toEqual(["deleted a"]);
});

function labels(failure?: string): Record<string, string> {
  return { cluster: "test", resource: "configmaps", ...(failure === undefined ? {} : { failure }) };
}
