import { once } from "node:events";
import { type Pod, pathOf, type RequestOptions } from "@berth/kube";
import {
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
  type EventRecorder,
  type ObjectKey,
  type VirtualClock,
} from "@berth/runtime";
import { aNode } from "@berth/testcluster";
import { expect, it } from "vitest";
import type { NodeHost } from "../node/wired.ts";
import { Evictions } from "./evictions.ts";
import { ownerOf } from "./ledger.ts";
import { LostPods } from "./lost-pods.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";
import type { DescheduleViews } from "./reads.ts";
import { aPolicy, gpuPod, observations, single } from "./testing/lost.ts";

interface Stage extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly evictions: Evictions;
  readonly lost: LostPods;
  readonly evicted: readonly string[];
  policies: readonly DeschedulePolicyInForce[];
  /** After each pass, before what it has chosen is evicted. */
  onPass: () => void;
  /** The API server answers no eviction. */
  isSilent: boolean;
}

/** Evictions over these pods, all on a node that lacks their label. */
async function stageOf(pods: readonly Pod[], policies: readonly DeschedulePolicyInForce[]): Promise<Stage> {
  const clock = createVirtualClock();
  const node = aNode("n1").build();
  const evicted: string[] = [];
  const lost = new LostPods({
    ...observations,
    policies: () => stage.policies,
    nodeOf: () => node,
    monotonic: () => clock.monotonic(),
  });
  const create = async (_: unknown, { metadata }: Pod, { signal }: RequestOptions): Promise<void> => {
    evicted.push(metadata?.name ?? "");
    if (stage.isSilent && signal !== undefined) await once(signal, "abort");
  };
  const evictions = new Evictions({
    cluster: clusterName("c"),
    clock,
    log: createSilentLogger(),
    metrics: createMetricsRegistry(),
    events: { record: () => undefined } as Partial<EventRecorder> as EventRecorder,
    nodes: { list: () => [node].values() } as Partial<NodeHost["nodes"]> as NodeHost["nodes"],
    client: { create } as unknown as NodeHost["client"],
    views: viewsOf(pods),
    lost,
    onPass: () => stage.onPass(),
  });
  const stop = new AbortController();
  const running = await Promise.all(evictions.controllers.map((it) => it.start(stop.signal)));
  const stage: Stage = {
    clock,
    evictions,
    lost,
    evicted,
    policies,
    onPass: () => undefined,
    isSilent: false,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all(running.map((it) => it.ended));
    },
  };
  evictions.take({ policies, faults: [] });
  return stage;
}

const spec = { for: "1s", requireFit: "False", breaker: { percent: 100 } };

it("D-D31 leaves a pod that its policy is not about any more, though another policy is, and it was not judged since", async () => {
  const pod = single("a");
  const shadow = aPolicy({ ...spec, dryRun: true }, "b");
  await using stage = await stageOf([pod], [aPolicy({ ...spec, dryRun: true }, "a"), shadow]);
  const { clock, evictions, evicted } = stage;
  await clock.advance(60_000);
  expect([stage.lost.has(pod), evicted]).toEqual([true, []]);
  // Out of dry run, and not about this pod, in one edit. The pass comes first.
  stage.policies = [aPolicy({ ...spec, podSelector: { matchLabels: { app: "other" } } }, "a"), shadow];
  evictions.changed([], true);
  await clock.advance(60_000);
  expect(evicted).toEqual([]);
  // What it is about goes, so it is no other reason that keeps the pod.
  stage.policies = [aPolicy(spec, "a"), shadow];
  evictions.take({ policies: stage.policies, faults: [] });
  await clock.advance(60_000);
  expect(evicted).toEqual(["a"]);
});

it("D-D31 leaves a pod that its policy ceases to select between the choice and the request, though another holds it lost", async () => {
  const pods = [gpuPod("a").labelled({ app: "x" }).build()];
  const ofX = aPolicy({ ...spec, podSelector: { matchLabels: { app: "x" } } }, "a");
  await using stage = await stageOf(pods, [ofX, aPolicy({ ...spec, dryRun: true }, "b")]);
  const { evictions, evicted, lost } = stage;
  stage.onPass = () => {
    if (evictions.ledger.inProgress.size > 0) pods[0] = gpuPod("a").labelled({ app: "y" }).build();
  };
  await stage.clock.advance(60_000);
  expect([pods[0]?.metadata?.labels?.["app"], evicted]).toEqual(["y", []]);
  expect(lost.all().map(({ policy }) => policy.name)).toEqual(["b"]);
});

it("D-D13 an edit of one policy begins that one anew, and no other", async () => {
  await using stage = await stageOf([], [aPolicy(spec, "a"), aPolicy(spec, "b")]);
  const { evictions } = stage;
  for (const { rule } of stage.policies) evictions.ledger.freeze([{ rule, namespace: "" }], 0);
  const frozen = (): readonly number[] =>
    stage.policies.map(({ rule }) => evictions.ledger.frozen(rule).length);
  // As when another document of the same file is edited.
  evictions.take({ policies: [aPolicy(spec, "a"), aPolicy(spec, "b")], faults: [] });
  expect(frozen()).toEqual([1, 1]);
  evictions.take({ policies: [aPolicy({ ...spec, for: "2s" }, "a"), aPolicy(spec, "b")], faults: [] });
  expect(frozen()).toEqual([0, 1]);
});

it("D-D19 an eviction whose request is under way is not forgotten by an edit of its policy", async () => {
  await using stage = await stageOf([single("a")], [aPolicy(spec, "a")]);
  stage.isSilent = true;
  await stage.clock.advance(15_000);
  expect(stage.evicted).toEqual(["a"]);
  stage.policies = [aPolicy({ ...spec, for: "2s" }, "a")];
  stage.evictions.take({ policies: stage.policies, faults: [] });
  expect(stage.evictions.ledger.inProgress.size).toBe(1);
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
