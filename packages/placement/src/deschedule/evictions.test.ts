import { type Pod, pathOf } from "@berth/kube";
import {
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
  type EventRecorder,
  type ObjectKey,
} from "@berth/runtime";
import { aNode } from "@berth/testcluster";
import { expect, it } from "vitest";
import type { NodeHost } from "../node/wired.ts";
import { Evictions } from "./evictions.ts";
import { ownerOf } from "./ledger.ts";
import { LostPods } from "./lost-pods.ts";
import type { DescheduleViews } from "./reads.ts";
import { aPolicy, observations, single } from "./testing/lost.ts";

it("D-D31 leaves a pod that its policy is not about any more, though another policy is, and it was not judged since", async () => {
  const clock = createVirtualClock();
  const pod = single("a");
  const node = aNode("n1").build();
  const spec = { for: "1s", requireFit: "False", breaker: { percent: 100 } };
  const shadow = aPolicy({ ...spec, dryRun: true }, "b");
  let policies = [aPolicy({ ...spec, dryRun: true }, "a"), shadow];
  const lost = new LostPods({
    ...observations,
    policies: () => policies,
    nodeOf: () => node,
    monotonic: () => clock.monotonic(),
  });
  const evicted: string[] = [];
  const evictions = new Evictions({
    cluster: clusterName("c"),
    clock,
    log: createSilentLogger(),
    metrics: createMetricsRegistry(),
    events: { record: () => undefined } as Partial<EventRecorder> as EventRecorder,
    nodes: { list: () => [node].values() } as Partial<NodeHost["nodes"]> as NodeHost["nodes"],
    client: {
      create: async (_: unknown, { metadata }: Pod) => void evicted.push(metadata?.name ?? ""),
    } as Partial<NodeHost["client"]> as NodeHost["client"],
    views: viewsOf([pod]),
    lost,
    onPass: () => undefined,
  });
  const stop = new AbortController();
  const running = await Promise.all(evictions.controllers.map((it) => it.start(stop.signal)));
  evictions.take({ policies, faults: [] });
  await clock.advance(60_000);
  expect([lost.has(pod), evicted]).toEqual([true, []]);
  // Out of dry run, and not about this pod, in one edit. The pass comes first.
  const narrowed = aPolicy({ ...spec, podSelector: { matchLabels: { app: "other" } } }, "a");
  policies = [narrowed, shadow];
  evictions.changed([], true);
  await clock.advance(60_000);
  expect(evicted).toEqual([]);
  // What it is about goes, so it is no other reason that keeps the pod.
  policies = [aPolicy(spec, "a"), shadow];
  evictions.take({ policies, faults: [] });
  await clock.advance(60_000);
  expect(evicted).toEqual(["a"]);
  stop.abort();
  await Promise.all(running.map((it) => it.ended));
});

function viewsOf(all: readonly Pod[]): DescheduleViews {
  return {
    pods: {
      synced: true,
      list: () => all,
      get: ({ namespace, name }: ObjectKey) =>
        all.find((it) => pathOf(it.metadata) === `${namespace}/${name}`),
      byIndex: (index: string, value: string) =>
        all.filter((it) => (index === "owner" ? ownerOf(it) : it.spec?.nodeName) === value),
    },
    problem: () => undefined,
  } as unknown as DescheduleViews;
}
