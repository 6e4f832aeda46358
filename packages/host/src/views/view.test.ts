import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../../runtime/src/testing/property.ts";
import { createRecordingMetrics } from "../../../runtime/src/testing/recording-metrics.ts";
import { pick } from "./scope-informer.ts";
import { setUp } from "./testing/informer-setup.ts";
import { objectOf } from "./testing/streams.ts";

const KEYS = ["a", "b", "c"] as const;

describe("informers that come and go", () => {
  it("run once they are wanted and the set has started, whatever comes first", async () => {
    await using setup = setUp();
    setup.want("a");
    await setup.clock.advance(100);
    expect(setup.streams.names).toEqual([]);
    await setup.start();
    await setup.clock.advance(100);
    setup.want("b", "a");
    expect(setup.view.at({ labelSelector: "a" })?.size).toBe(1);
    expect(setup.view.at({ labelSelector: "b" })).toBeUndefined();
    await setup.clock.advance(100);
    expect(setup.view.at({ labelSelector: "b" })?.size).toBe(1);
    expect(setup.streams.names).toEqual(["a", "b"]);
    expect([setup.synced(), setup.view.size]).toEqual([2, 2]);
    expect(setup.changes).toEqual([]);
  });

  it("tell nothing once they are not wanted any more", async () => {
    await using setup = setUp();
    await setup.start();
    setup.want("a", "b");
    setup.want("a");
    await setup.clock.advance(100);
    const [stream] = setup.streams.open.get("a") ?? [];
    stream?.tell({ type: "MODIFIED", object: objectOf("a", "2", { changed: "yes" }) });
    setup.want();
    await setup.clock.advance(100);
    expect([setup.synced(), setup.view.size, setup.changes.length]).toEqual([1, 0, 0]);
    expect(setup.streams.names).toEqual([]);
  });

  it("wake nobody with a version that says the same, but those who ask for each", async () => {
    await using setup = setUp();
    await setup.start();
    setup.want("a");
    await setup.clock.advance(100);
    const [stream] = setup.streams.open.get("a") ?? [];
    stream?.tell({ type: "MODIFIED", object: objectOf("a", "2") });
    stream?.tell({ type: "MODIFIED", object: objectOf("a", "3", { changed: "yes" }) });
    stream?.tell({ type: "DELETED", object: objectOf("a", "4", { changed: "yes" }) });
    await setup.clock.advance(100);
    expect(setup.changes.map(({ type, object }) => `${type} ${object.metadata?.resourceVersion}`)).toEqual([
      "updated 3",
      "deleted 4",
    ]);
    expect(setup.versions).toEqual(["2", "3", "4"]);
  });

  it("are measured together", async () => {
    const metrics = createRecordingMetrics();
    await using setup = setUp(metrics);
    const labels = { cluster: "test", resource: "configmaps" };
    const together = { ...labels, informer: "red" };
    await setup.start();
    // Without a wanted scope the view lacks nothing.
    expect(metrics.value("informer_synced", together)).toBe(1);
    setup.want("a", "b");
    expect(metrics.value("informer_synced", together)).toBe(0);
    await setup.clock.advance(100);
    expect(metrics.value("informer_synced", together)).toBe(1);
    expect(metrics.value("informer_objects", together)).toBe(2);
    expect(metrics.value("informer_snapshots_total", { ...labels, how: "stream" })).toBe(2);
    setup.want();
    expect(metrics.value("informer_objects", together)).toBe(0);
  });
});

const key = fc.constantFrom(...KEYS);
const step = fc.oneof(
  steps(6, ["want"], { keys: fc.uniqueArray(key) }),
  steps(4, ["wait"], { ms: fc.integer({ min: 0, max: 12 }) }),
  steps(1, ["cut"], { key }),
  steps(2, ["start", "stop"], {}),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Carries the steps out, lets all come to rest, and says what runs then and what should. */
async function play(steps: readonly Step[]) {
  await using setup = setUp();
  const { view, want, streams, clock } = setup;
  const begun = new Map<string, number>();
  let now: readonly string[] = [];
  let phase: "new" | "runs" | "stopped" = "new";
  for (const it of steps) {
    if (it.do === "wait") await clock.advance(it.ms);
    if (it.do === "cut") streams.open.get(it.key)?.[0]?.cut();
    if (it.do === "want") {
      want(...it.keys);
      for (const key of it.keys) if (!now.includes(key)) begun.set(key, (begun.get(key) ?? 0) + 1);
      now = it.keys;
    }
    if (it.do === "start" && phase === "new") {
      phase = "runs";
      await setup.start();
    }
    if (it.do === "stop" && phase === "runs") {
      phase = "stopped";
      await setup.stop();
    }
  }
  await clock.advance(60_000);
  const run = phase === "runs" ? now.toSorted() : [];
  return {
    is: {
      streams: streams.names,
      known: KEYS.filter((key) => view.at({ labelSelector: key }) !== undefined),
      most: Math.max(1, streams.most),
      // Selectors that were read more often than they were wanted anew.
      readAgain: KEYS.filter((key) => (streams.snapshots.get(key) ?? 0) > (begun.get(key) ?? 0)),
    },
    should: { streams: run, known: run, most: 1, readAgain: [] },
  };
}

describe("any sequence of wishes", () => {
  const run = seededRun(300, process.env);
  it(
    `ends with exactly the wanted informers, each read once for each time it is wanted (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
          const { is, should } = await play(steps);
          expect(is).toEqual(should);
        }),
        run.parameters,
      );
    },
  );
});

describe("problems", () => {
  it("are none for what was wanted just now and for a connection that was just lost", async () => {
    await using setup = setUp();
    setup.streams.failures.set("watch", { kind: "unreachable" }).set("list", { kind: "unreachable" });
    await setup.start();
    setup.want("a");
    await setup.clock.advance(59_000);
    expect(setup.view.problem()).toBeUndefined();
    await setup.clock.advance(2_000);
    expect(setup.view.problem()).toMatch(/^configmaps with a: not synced yet: (list|watch) configmaps: /);
    setup.streams.failures.clear();
    await setup.clock.advance(60_000);
    expect(setup.view.problem()).toBeUndefined();
    setup.streams.failures.set("watch", { kind: "unreachable" });
    setup.streams.open.get("a")?.[0]?.cut();
    await setup.clock.advance(30_000);
    expect(setup.view.problem()).toBeUndefined();
    expect(setup.view.at({ labelSelector: "a" })?.size).toBe(1);
    await setup.clock.advance(90_000);
    expect(setup.view.problem()).toMatch(/^configmaps with a: not connected for \d+ s: watch configmaps: /);
  });

  it("name the rule that is missing at once, until it is granted or the informer is not wanted", async () => {
    await using setup = setUp();
    setup.streams.failures.set("watch", { kind: "forbidden" });
    await setup.start();
    setup.wantScopes([{ namespace: "ns", labelSelector: "a" }]);
    await setup.clock.advance(5_000);
    expect(setup.view.problem()).toBe(
      'configmaps in "ns" with a: watch configmaps in "ns" is forbidden: verb "watch" on "configmaps" in namespace "ns" is missing',
    );
    setup.want();
    expect(setup.view.problem()).toBeUndefined();
    setup.want("a");
    await setup.clock.advance(5_000);
    expect(setup.view.problem()).toContain('verb "watch" on "configmaps" is missing');
    setup.streams.failures.clear();
    await setup.clock.advance(60_000);
    expect(setup.view.problem()).toBeUndefined();
  });
});

describe("what a projection keeps", () => {
  it("is what is there", () => {
    const from: { readonly a: number; readonly b?: string; readonly c?: string } = { a: 1, c: "x" };
    expect(Object.entries(pick(from, ["a", "b"]))).toEqual([["a", 1]]);
  });
});
