/** An informer of many nodes. Times and memory are reported and not asserted. */
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { ApiError, type KubeClient, type Node, namespaces, nodes } from "@berth/kube";
import { aNode, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { differencesFrom, type LiveInformer, startInformer } from "./testing/live-informer.ts";

/** Several pages. `make bench` has those of the largest clusters. */
const COUNT = 1_500;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  const left = Array.from({ length: COUNT }, (_, index) => aNode(`n${index}`).realistic()).values();
  const createEach = async (): Promise<void> => {
    for (const node of left) await cluster.client.create(nodes, node.build());
  };
  await Promise.all(Array.from({ length: 16 }, createEach));
});

/** Also refuses, when told, to stream snapshots. */
function clientFor(client: KubeClient, how: "stream" | "pages"): Pick<KubeClient, "list" | "watch"> {
  return {
    list: (...args) => client.list(...args),
    watch: (resource, options) =>
      how === "pages" && options?.sendInitialEvents
        ? Promise.reject(new ApiError({ kind: "unsupported" }, { verb: "watch", resource: "nodes" }))
        : client.watch(resource, options),
  };
}

/** What it did to this process, in words. */
async function measured(
  what: string,
  work: () => Promise<LiveInformer<Node>>,
): Promise<{ live: LiveInformer<Node>; report: string }> {
  const delay = monitorEventLoopDelay({ resolution: 2 });
  const startedAt = performance.now();
  delay.enable();
  const live = await work();
  delay.disable();
  const tookMs = Math.round(performance.now() - startedAt);
  const [max, p99] = [delay.max / 1e6, delay.percentile(99) / 1e6].map(Math.round);
  const heap = Math.round(process.memoryUsage().heapUsed / 2 ** 20);
  return {
    live,
    report: `${what}: ${tookMs} ms, event loop held at most ${max} ms (p99 ${p99}), heap ${heap} MB`,
  };
}

describe(`${COUNT} nodes`, () => {
  it.for(["stream", "pages"] as const)(
    "are taken over by %s, and leave the event loop its turns",
    async (how, { annotate }) => {
      await using client = cluster.connect();
      const { live, report } = await measured(`snapshot by ${how}`, () =>
        startInformer({ client: clientFor(client, how), resource: nodes }),
      );
      await using _owned = live;
      await annotate(report);
      expect(live.informer.size).toBe(COUNT);
      expect(await differencesFrom(live, cluster.client, { resource: nodes })).toEqual([]);
    },
  );

  it("are the same objects after the API server forgot its history, all but one that changed", async ({
    annotate,
  }) => {
    await using client = cluster.connect();
    await using live = await startInformer({ client, resource: nodes });
    const before = new Map([...live.informer.list()].map((node) => [node.metadata?.name, node]));
    const { report } = await measured("another snapshot, API server restart included", async () => {
      // Before the change: it may be seen before its answer is here.
      const changed = Promise.withResolvers<void>();
      live.informer.subscribe({
        onChange: ({ type, object }) => {
          if (type === "updated" && object.spec?.unschedulable) changed.resolve();
        },
      });
      await cluster.client.create(namespaces, { metadata: { name: "moves-the-version-on" } });
      await cluster.stopComponent("kube-apiserver", "SIGKILL");
      await cluster.compact();
      await cluster.startComponent("kube-apiserver");
      await cluster.client.patch(
        nodes,
        { name: "n7" },
        { type: "merge", body: { spec: { unschedulable: true } } },
      );
      await changed.promise;
      return live;
    });
    await annotate(report);
    const snapshots = { cluster: "test", resource: "nodes", how: "stream" };
    expect(live.metrics.value("berth_informer_snapshots_total", snapshots)).toBe(2);
    const copies = [...live.informer.list()].filter((node) => before.get(node.metadata?.name) !== node);
    expect(copies.map(({ metadata }) => metadata?.name)).toEqual(["n7"]);
    expect(live.history.log.slice(COUNT)).toEqual(["updated n7"]);
  });
});
