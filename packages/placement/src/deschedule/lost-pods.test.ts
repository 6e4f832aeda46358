import type { Pod } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { LostPods } from "./lost-pods.ts";
import { aPolicy, GPU, gpuPod, observations } from "./testing/lost.ts";

const bare = aNode("n1").build();
const gpuNode = aNode("n1")
  .labelled({ [GPU]: "true" })
  .build();
const pod = gpuPod("a").build();

class Watch {
  nowMs = 0;
  node: typeof bare | undefined = bare;
  policies = [aPolicy()];
  readonly lost = new LostPods({
    ...observations,
    policies: () => this.policies,
    nodeOf: () => this.node,
    monotonic: () => this.nowMs,
  });

  look(nowMs: number, of: Pod = pod): boolean {
    this.nowMs = nowMs;
    return this.lost.look(of);
  }

  get since(): readonly string[] {
    return this.lost.all().map(({ policy, sinceMs }) => `${policy.name} ${sinceMs}`);
  }
}

it("a pod does not count under a policy that is not about it any more, before it is judged again", () => {
  const watch = new Watch();
  watch.look(1);
  watch.policies = [aPolicy({ podSelector: { matchLabels: { app: "other" } } })];
  expect(watch.since).toEqual([]);
  watch.policies = [aPolicy({ for: "9h" })];
  expect(watch.since).toEqual(["default 1"]);
});

describe("since when a pod is lost", () => {
  it("D-B32 counts from the first look, and anew after the pod has fitted", () => {
    const watch = new Watch();
    for (const nowMs of [1, 2]) watch.look(nowMs);
    expect(watch.since).toEqual(["default 1"]);
    watch.node = gpuNode;
    expect([watch.look(3), watch.since, watch.lost.size]).toEqual([true, [], 0]);
    watch.node = bare;
    watch.look(4);
    expect(watch.since).toEqual(["default 4"]);
  });

  it("D-B33 counts anew after Berth could not tell", () => {
    const watch = new Watch();
    watch.look(1);
    watch.node = undefined;
    expect([watch.look(2), watch.lost.has(pod)]).toEqual([false, false]);
    watch.node = bare;
    watch.look(3);
    expect(watch.since).toEqual(["default 3"]);
  });

  it.each<[string, Pod]>([
    ["D-B34 counts anew for another pod of the same name", gpuPod("a").stored({ uid: "b" }).build()],
    ["D-B35 counts anew on another node", gpuPod("a").on("n2").build()],
  ])("%s", (_, other) => {
    const watch = new Watch();
    watch.look(1);
    expect(watch.lost.has(other)).toBe(false);
    watch.look(2, other);
    expect(watch.since).toEqual(["default 2"]);
  });

  it("D-B36 counts by policy, and keeps the time when a policy changes", () => {
    const watch = new Watch();
    watch.look(1);
    watch.policies = [aPolicy({ dryRun: true }), aPolicy({}, "new")];
    expect(watch.lost.all().map(({ policy }) => policy.spec.dryRun)).toEqual([true]);
    watch.look(2);
    expect(watch.since).toEqual(["default 1", "new 2"]);
    watch.policies = [aPolicy({}, "new")];
    expect(watch.since).toEqual(["new 2"]);
  });

  it("D-B37 forgets a pod that is gone", () => {
    const watch = new Watch();
    watch.look(1);
    watch.lost.forget("default/a");
    expect(watch.since).toEqual([]);
  });

  it("D-B38 counts in scope a pod that fits or is lost, and none that stays", () => {
    const { lost, policies } = new Watch();
    const [policy = aPolicy()] = policies;
    expect(lost.isAbout(pod, policy)).toBe(true);
    expect(lost.isAbout(gpuPod("d").ofDaemonSet("d").build(), policy)).toBe(false);
    expect(lost.isAbout(pod, aPolicy({ keys: ["other"] }))).toBe(false);
  });
});
