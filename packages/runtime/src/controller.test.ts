import { ApiError, type ApiErrorOptions, type ApiFailure, type KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep } from "./clock.ts";
import { type ControllerOptions, createController } from "./controller.ts";
import { createSilentLogger } from "./json-log.ts";
import { clusterName } from "./key.ts";
import type { Change } from "./lister.ts";
import { toSelf } from "./mapper.ts";
import { labelsChanged } from "./predicate.ts";
import { TerminalError } from "./reconcile.ts";
import { SharedFailure } from "./shared-failure.ts";
import { type Subscribable, watchFor } from "./source.ts";
import { createRecordingMetrics } from "./testing/recording-metrics.ts";
import type { AddOptions } from "./work-queue.ts";

async function setUp(
  options: Partial<ControllerOptions<string>> & Pick<ControllerOptions<string>, "reconcile">,
) {
  const clock = createVirtualClock();
  const metrics = createRecordingMetrics();
  const stop = new AbortController();
  const controller = createController<string>({
    name: "test",
    clock,
    log: createSilentLogger(),
    metrics,
    random: () => 0,
    ...options,
  });
  const running = await controller.start(stop.signal);
  const value = (name: string, labels = {}) => metrics.value(name, { controller: "test", ...labels });
  return {
    clock,
    controller,
    running,
    stop,
    value,
    results: (result: string) => value("reconcile_total", { result }) ?? 0,
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return running.ended;
    },
  };
}

function apiError(failure: ApiFailure, options?: ApiErrorOptions): ApiError {
  return new ApiError(failure, { verb: "patch", resource: "nodes", name: "n1" }, options);
}

/** Resolves when `signal` aborts, as a request does. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(apiError({ kind: "aborted" })), { once: true });
  });
}

describe("a controller", () => {
  it("reconciles different keys at one time, up to its concurrency, and one key never twice at once", async () => {
    const clock = createVirtualClock();
    const inHand: string[] = [];
    let most = 0;
    const reconcile = async (key: string) => {
      inHand.push(key);
      most = Math.max(most, inHand.length);
      if (new Set(inHand).size < inHand.length) throw new Error(`${key} is reconciled twice at once`);
      await sleep(clock, 100);
      inHand.splice(inHand.indexOf(key), 1);
      return undefined;
    };
    await using test = await setUp({ clock, reconcile, concurrency: 3 });
    for (const key of ["a", "b", "c", "d"]) test.controller.enqueue(key);
    await clock.advance(50);
    expect([inHand, test.value("reconcile_active_workers"), test.value("reconcile_max_concurrent")]).toEqual([
      ["a", "b", "c"],
      3,
      3,
    ]);
    test.controller.enqueue("a");
    await clock.advance(500);
    expect([most, test.results("success"), test.results("error")]).toEqual([3, 5, 0]);
  });

  it("looks again when the reconcile asked to, and not when it settled", async () => {
    const seen: number[] = [];
    const clock = createVirtualClock();
    const reconcile = () => {
      seen.push(clock.monotonic());
      return Promise.resolve(seen.length < 3 ? { recheckAfterMs: 1_000 } : undefined);
    };
    await using test = await setUp({ clock, reconcile });
    test.controller.enqueue("a");
    await clock.advance(3_600_000);
    expect(seen).toEqual([0, 1_000, 2_000]);
    expect([test.results("requeue"), test.results("success")]).toEqual([2, 1]);
  });

  const doubling = [0, 25, 75, 175];
  const slowly = [0, 300_000, 600_000, 900_000];
  const busy: ApiFailure = { kind: "tooManyRequests", causes: [] };
  const held = new SharedFailure(apiError({ kind: "forbidden" }), 5_000);

  it.each([
    ["doubling from the base", new Error("bug"), doubling, "error"],
    ["doubling from the base", apiError({ kind: "timeout", afterMs: 1 }), doubling, "error"],
    ["no sooner than the server asked", apiError(busy, { retryAfterMs: 80 }), [0, 80, 160, 260], "error"],
    ["soon after a conflict", apiError({ kind: "conflict", causes: [] }), [0, 10, 30, 70], "requeue"],
    ["slowly when the content is refused", apiError({ kind: "invalid", causes: [] }), slowly, "terminal"],
    ["doubling from the base", apiError({ kind: "forbidden" }), doubling, "error"],
    ["I-15 when the guard of the client says", held, [0, 5_000, 10_000, 15_000], "error"],
    ["slowly when terminal", new TerminalError("the policy is wrong"), slowly, "terminal"],
    ["as any failure when its own signal cut it off", apiError({ kind: "aborted" }), doubling, "error"],
  ])(
    "retries a failure %s, and from the start once it has succeeded: %s",
    async (_how, error, times, result) => {
      const seen: number[] = [];
      const clock = createVirtualClock();
      const reconcile = () => {
        seen.push(clock.monotonic());
        return seen.length % 4 === 0 ? Promise.resolve(undefined) : Promise.reject(error);
      };
      await using test = await setUp({ clock, reconcile });
      for (const startMs of [0, 1_000_000]) {
        test.controller.enqueue("a");
        await clock.advance(1_000_000);
        expect(seen.slice(-4)).toEqual(times.map((ms) => startMs + ms));
      }
      expect([test.results(result), test.results("success")]).toEqual([6, 2]);
    },
  );

  it("counts the eighth conflict in a row as an error", async () => {
    const clock = createVirtualClock();
    const error = apiError({ kind: "alreadyExists" });
    await using test = await setUp({ clock, reconcile: () => Promise.reject(error) });
    test.controller.enqueue("a");
    await clock.advance(1_000);
    expect([test.results("requeue"), test.results("error")]).toEqual([7, 0]);
    await clock.advance(3_000);
    expect([test.results("requeue"), test.results("error")]).toEqual([7, 2]);
  });

  it("does not count other failures as conflicts in a row", async () => {
    const clock = createVirtualClock();
    let looks = 0;
    const reconcile = () => {
      looks += 1;
      if (looks > 9) return Promise.resolve(undefined);
      const failure: ApiFailure =
        looks < 9 ? { kind: "serverError", status: 500 } : { kind: "conflict", causes: [] };
      return Promise.reject(apiError(failure));
    };
    await using test = await setUp({ clock, reconcile });
    test.controller.enqueue("a");
    await clock.advance(1_000_000);
    expect([test.results("requeue"), test.results("error"), test.results("success")]).toEqual([1, 8, 1]);
  });

  it("takes up a refused key at once when something changes", async () => {
    let allowed = false;
    const reconcile = () =>
      allowed ? Promise.resolve(undefined) : Promise.reject(apiError({ kind: "invalid", causes: [] }));
    await using test = await setUp({ reconcile });
    test.controller.enqueue("a");
    await test.clock.advance(1_000);
    allowed = true;
    test.controller.enqueue("a");
    await test.clock.advance(0);
    expect([test.results("terminal"), test.results("success")]).toEqual([1, 1]);
  });

  it("treats a throw before the first await, and a delay without end, as failures of that key alone", async () => {
    const reconcile = (key: string) => {
      if (key === "throws") throw new Error("at once");
      return Promise.resolve(key === "never" ? { recheckAfterMs: Number.POSITIVE_INFINITY } : undefined);
    };
    await using test = await setUp({ reconcile, concurrency: 1, queue: { backoff: { baseMs: 60_000 } } });
    for (const key of ["throws", "never", "fine"]) test.controller.enqueue(key);
    await test.clock.advance(10);
    expect([test.results("error"), test.results("success")]).toEqual([2, 1]);
  });

  it("aborts a reconcile at its deadline and retries the key", async () => {
    let calls = 0;
    const reconcile = (_key: string, { signal }: { signal: AbortSignal }) =>
      calls++ === 0 ? untilAborted(signal) : Promise.resolve(undefined);
    await using test = await setUp({ reconcile, deadlineMs: 5_000 });
    test.controller.enqueue("a");
    await test.clock.advance(4_999);
    expect(test.results("deadline")).toBe(0);
    await test.clock.advance(100);
    expect([
      test.results("deadline"),
      test.results("success"),
      test.value("reconcile_stuck_workers"),
    ]).toEqual([1, 1, 0]);
  });

  it("reports a reconcile that ignores its deadline, blocks its key, and goes on with the others", async () => {
    const stuck = Promise.withResolvers<undefined>();
    const calls: string[] = [];
    const reconcile = (key: string) => {
      calls.push(key);
      return key === "stuck" && calls.length === 1 ? stuck.promise : Promise.resolve(undefined);
    };
    await using test = await setUp({ reconcile, concurrency: 2, deadlineMs: 1_000, stuckAfterMs: 500 });
    using _release = { [Symbol.dispose]: () => stuck.resolve(undefined) };
    test.controller.enqueue("stuck");
    await test.clock.advance(1_499);
    expect(test.value("reconcile_stuck_workers")).toBe(0);
    await test.clock.advance(1);
    for (const key of ["stuck", "a", "b"]) test.controller.enqueue(key);
    await test.clock.advance(60_000);
    expect([calls, test.value("reconcile_stuck_workers"), test.controller.problem?.()]).toEqual([
      ["stuck", "a", "b"],
      1,
      undefined,
    ]);
    expect(test.value("workqueue_longest_running_processor_seconds")).toBe(61.5);
    stuck.resolve(undefined);
    await test.clock.advance(1_000);
    expect([calls.at(-1), test.value("reconcile_stuck_workers"), test.results("deadline")]).toEqual([
      "stuck",
      0,
      1,
    ]);
  });

  it("is not ready once every worker is stuck", async () => {
    const stuck = Promise.withResolvers<undefined>();
    await using test = await setUp({ reconcile: () => stuck.promise, concurrency: 1, deadlineMs: 10 });
    using _release = { [Symbol.dispose]: () => stuck.resolve(undefined) };
    test.controller.enqueue("a");
    await test.clock.advance(2_000);
    expect(test.controller.problem?.()).toContain("stuck");
  });

  it("finishes what is in flight when drained, and takes nothing new", async () => {
    const clock = createVirtualClock();
    const ended: string[] = [];
    const reconcile = async (key: string, { signal }: { signal: AbortSignal }) => {
      ended.push((await sleep(clock, 300, signal)) ? key : `${key} aborted`);
      return undefined;
    };
    await using test = await setUp({ clock, reconcile, concurrency: 1 });
    test.controller.enqueue("a");
    test.controller.enqueue("b");
    await clock.advance(0);
    const drained = test.running.drain?.();
    await clock.advance(300);
    await drained;
    await test.running.ended;
    expect([ended, test.results("success")]).toEqual([["a"], 1]);
  });

  it("aborts what is in flight when stopped, and does not count it", async () => {
    const reconcile = (_key: string, { signal }: { signal: AbortSignal }) => untilAborted(signal);
    const test = await setUp({ reconcile });
    test.controller.enqueue("a");
    await test.clock.advance(0);
    test.stop.abort();
    await test.running.ended;
    expect(["success", "error", "deadline", "terminal"].map(test.results)).toEqual([0, 0, 0, 0]);
    expect(test.clock.nextInMs).toBeUndefined();
  });

  it("lets timers have their turn while thousands of reconciles only compute", async () => {
    let [now, turns] = [0, 0];
    const clock = { ...createVirtualClock(), monotonic: () => now };
    const reconcile = () => {
      now += 1;
      return Promise.resolve(undefined);
    };
    await using test = await setUp({ clock, reconcile });
    for (let i = 0; i < 1_000; i++) test.controller.enqueue(`n${i}`);
    while (test.results("success") < 1_000) {
      await new Promise((resolve) => setImmediate(resolve));
      turns++;
    }
    expect(turns).toBeGreaterThan(30);
  });

  it("rejects a concurrency without meaning and a second start", async () => {
    const reconcile = () => Promise.resolve(undefined);
    const options = { name: "test", clock: createVirtualClock(), log: createSilentLogger(), reconcile };
    expect(() => createController({ ...options, concurrency: 0 })).toThrow(RangeError);
    await using test = await setUp({ reconcile });
    await expect(test.controller.start(test.stop.signal)).rejects.toThrow("started before");
  });
});

/** The subscription side of an informer: hands each change to whoever subscribed. */
class Changes implements Subscribable<KubeObject> {
  readonly handlers = new Set<(change: Change<KubeObject>) => void>();
  subscribe(handler: { onChange(change: Change<KubeObject>): void }): Disposable {
    const onChange = (change: Change<KubeObject>): void => handler.onChange(change);
    this.handlers.add(onChange);
    return { [Symbol.dispose]: () => void this.handlers.delete(onChange) };
  }
  emit(change: Change<KubeObject>): void {
    for (const handler of this.handlers) handler(change);
  }
}

it("a burst is waited for neither where a key is wanted at once, nor by the recheck of a reconcile", async () => {
  const seen: [string, number][] = [];
  const clock = createVirtualClock();
  const startedMs = clock.monotonic();
  await using test = await setUp({
    clock,
    queue: { coalesceMs: 1_000 },
    reconcile: async (key) => {
      seen.push([key, clock.monotonic() - startedMs]);
      return seen.length === 1 ? { recheckAfterMs: 10 } : undefined;
    },
  });
  test.controller.enqueue("a", { immediate: true });
  test.controller.enqueue("b");
  await clock.advance(500);
  // It waits already, and is wanted now.
  test.controller.enqueue("b", { immediate: true });
  await clock.advance(2_000);
  expect(seen).toEqual([
    ["a", 0],
    ["a", 10],
    ["b", 500],
  ]);
});

describe("watchFor", () => {
  it("asks for the mapped keys of changes that count, live ones before those of a snapshot", async () => {
    const informer = new Changes();
    const node = (name: string, labels = {}): KubeObject => ({ metadata: { name, labels } });
    const seen: string[] = [];
    const clock = createVirtualClock();
    const first = Promise.withResolvers<void>();
    const stop = new AbortController();
    const controller = createController({
      name: "nodes",
      clock,
      log: createSilentLogger(),
      concurrency: 1,
      queue: { coalesceMs: 5, quietMs: 1_000 },
      sources: [watchFor({ informer, predicate: labelsChanged, map: toSelf(clusterName("c")) })],
      reconcile: async (key) => {
        seen.push(key.name);
        if (key.name === "n0") await first.promise;
        return undefined;
      },
    });
    const running = await controller.start(stop.signal);
    // What a snapshot holds does not wait for a burst to end, but for live changes while the worker is busy.
    informer.emit({ type: "added", object: node("n0"), initial: true });
    await clock.advance(0);
    expect(seen).toEqual(["n0"]);
    informer.emit({ type: "added", object: node("n1"), initial: true });
    informer.emit({ type: "added", object: node("n2"), initial: false });
    informer.emit({ type: "updated", old: node("n3"), object: node("n3", { a: "b" }) });
    informer.emit({ type: "updated", old: node("n4"), object: node("n4") });
    await clock.advance(5);
    first.resolve();
    await clock.advance(0);
    // A change of a quiet object does not wait for a burst to end. More changes of a new object are expected.
    expect(seen).toEqual(["n0", "n3", "n2", "n1"]);
    stop.abort();
    await running.ended;
    expect(informer.handlers.size).toBe(0);
  });

  it("asks at once for the changes that a controller names", async () => {
    const informer = new Changes();
    const immediate = ({ type }: Change<KubeObject>): boolean => type === "deleted";
    const options: (AddOptions | undefined)[] = [];
    using _source = watchFor({ informer, map: () => ["a"], immediate }).start((_, option) =>
      options.push(option),
    );
    informer.emit({ type: "added", object: {}, initial: true });
    informer.emit({ type: "deleted", object: {} });
    expect(options).toEqual([
      { priority: "low", immediate: false },
      { priority: "high", immediate: true },
    ]);
  });

  it("gives up the sources it had when another cannot be started", async () => {
    const informer = new Changes();
    const start = (): never => {
      throw new Error("no such folder");
    };
    const sources = [watchFor({ informer, map: () => ["a"] }), { start }];
    const starting = setUp({ sources, reconcile: () => Promise.resolve(undefined) });
    await expect(starting).rejects.toThrow("no such folder");
    expect(informer.handlers.size).toBe(0);
  });
});
