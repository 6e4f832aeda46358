import { clusterName, createVirtualClock, type VirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import type { ArchitecturePolicies } from "./policy.ts";
import { type ArchitectureReview, createArchitectureReview } from "./review.ts";

interface Stage extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly review: ArchitectureReview;
  readonly tainting: Set<string>;
  readonly told: string[];
  readonly imageChanged: () => void;
}

async function setUp(rules: readonly string[]): Promise<Stage> {
  const clock = createVirtualClock();
  const tainting = new Set<string>();
  const told: string[] = [];
  const listeners = new Set<(name: string) => void>();
  const review = createArchitectureReview({
    policies: () => ({ policies: rules.map((rule) => ({ rule })) }) as unknown as ArchitecturePolicies,
    tainting: (rule) => tainting.has(rule),
    images: {
      subscribe(listener) {
        listeners.add(listener);
        return { [Symbol.dispose]: () => void listeners.delete(listener) };
      },
    },
    onTainting: () => void told.push("nodes"),
    onStatus: () => void told.push("status"),
    onOpen: ({ pods, daemonSets }) =>
      void told.push(...[...pods, ...daemonSets].map(({ namespace, name }) => `${namespace}/${name}`)),
    cluster: clusterName("test"),
    clock,
  });
  const stopping = new AbortController();
  const { ended } = await review.component.start(stopping.signal);
  return {
    clock,
    review,
    tainting,
    told,
    imageChanged() {
      for (const listener of listeners) listener("docker.io/library/nginx:latest");
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await clock.advance(1000);
      await ended;
      expect(listeners.size).toBe(0);
    },
  };
}

it("has nodes looked at when a policy begins to taint, or ends to, and not for every count", async () => {
  await using on = await setUp(["cluster/a"]);
  on.review.ask();
  await on.clock.advance(100);
  expect(on.told).toEqual(["status"]);
  on.tainting.add("cluster/a");
  for (let count = 0; count < 100; count++) on.review.ask();
  await on.clock.advance(100);
  on.review.ask();
  await on.clock.advance(100);
  expect(on.told).toEqual(["status", "nodes", "status", "status"]);
  on.tainting.clear();
  on.review.ask();
  await on.clock.advance(100);
  expect(on.told.slice(4)).toEqual(["nodes", "status"]);
});

it("has those decided again that are open, once for many images", async () => {
  await using on = await setUp([]);
  const outcome = { rule: "cluster/a", uncovered: [] };
  on.review.decided("Pod ns/waits", { ...outcome, phase: "waiting" });
  on.review.decided("Pod ns/stuck", { ...outcome, phase: "impossible" });
  on.review.decided("Pod ns/gone", { ...outcome, phase: "waiting" });
  on.review.decided("Pod ns/settled", { ...outcome, phase: "waiting" });
  on.review.decided("DaemonSet kube-system/cni", { ...outcome, phase: "unresolvable" });
  on.review.gone("Pod ns/gone");
  on.review.decided("Pod ns/settled", { ...outcome, phase: "settled" });
  on.imageChanged();
  on.imageChanged();
  await on.clock.advance(100);
  expect(on.told).toEqual(["status", "ns/waits", "ns/stuck", "kube-system/cni"]);
});
