/** Random histories of a log, watched by a whole informer through random faults, on a virtual clock. */
import { isDeepStrictEqual } from "node:util";
import type { ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Informer } from "./informer.ts";
import { ChangeHistory } from "./testing/change-history.ts";
import { type Thing, watchLog } from "./testing/things.ts";
import type { VersionLog } from "./testing/version-log.ts";

const COLOURS = ["red", "blue"];

type Step =
  | { readonly do: "write" | "remove" | "recreate"; readonly name: string; readonly colour: string }
  | { readonly do: "cut" | "end" | "break off" | "expire" | "forget" | "repeat" | "bookmark" }
  | { readonly do: "error event" | "fail next"; readonly failure: ApiFailure; readonly retryAfterMs: number }
  | { readonly do: "subscribe" }
  | { readonly do: "wait"; readonly ms: number };

const name = fc.constantFrom("a", "b", "c", "d", "e");
const failure = fc.constantFrom<ApiFailure>(
  { kind: "unreachable" },
  { kind: "serverError", status: 500 },
  { kind: "tooManyRequests", causes: [] },
  { kind: "forbidden" },
  { kind: "expired" },
  { kind: "undecodable" },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom("write", "write", "remove", "recreate"),
      name,
      colour: fc.constantFrom(...COLOURS),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("cut", "end", "break off", "expire", "forget", "repeat", "bookmark"),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("error event", "fail next"),
      failure,
      retryAfterMs: fc.constantFrom(0, 0, 5_000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 20, 300, 600, 2_000, 40_000),
    }),
  },
);

const setting = fc.record({
  latencyMs: fc.constantFrom(0, 15, 400),
  refusesStreams: fc.constantFrom(false, false, true),
  losesEndMark: fc.constantFrom(false, false, true),
  /** Steps before the informer starts. */
  startAfter: fc.nat(8),
  pageSize: fc.constantFrom(1, 2, 500),
  seed: fc.nat(),
});
type Setting = typeof setting extends fc.Arbitrary<infer S> ? S : never;

function apply(log: VersionLog, step: Exclude<Step, { do: "wait" | "subscribe" }>): void {
  switch (step.do) {
    case "write":
      return log.write(step.name, { colour: step.colour });
    case "remove":
      return log.remove(step.name);
    case "recreate":
      log.remove(step.name);
      return log.write(step.name, { colour: step.colour });
    case "cut":
      return log.cut();
    case "end":
      return log.end();
    case "break off":
      return log.end("at once");
    case "error event":
      return log.cut(step.failure);
    case "fail next":
      return log.failNext(step.failure, step.retryAfterMs);
    case "expire":
      return log.expire();
    case "forget":
      return log.forget();
    case "repeat":
      return log.repeat();
    case "bookmark":
      return log.bookmark();
  }
}

/** The version that the lister shows, no earlier than `from`; -1 when it never was so. */
function versionOf(informer: Informer<Thing>, log: VersionLog, from: number): number {
  const shown = new Map([...informer.list()].map((thing) => [thing.metadata?.name ?? "", thing]));
  return log.states.findIndex((state, version) => version >= from && isDeepStrictEqual(state, shown));
}

function subscribe(informer: Informer<Thing>): ChangeHistory<Thing> {
  const history = new ChangeHistory<Thing>();
  informer.subscribe({
    onChange(change) {
      history.onChange(change);
      if (history.log.length % 3 === 0) throw new Error("a handler that fails now and then");
    },
  });
  return history;
}

/** Runs the steps against an informer. Gives all that was wrong. */
async function violationsOf(
  steps: readonly Step[],
  { seed, pageSize, startAfter, ...server }: Setting,
): Promise<string[]> {
  const indexes = { colour: (thing: Thing): string[] => [thing.colour ?? ""] };
  const watched = watchLog(server, { indexes, pageSize, random: randomFrom(seed) });
  const { clock, log, informer } = watched;
  const histories = [subscribe(informer)];
  const found: string[] = [];
  let version = 0;
  const look = (when: string): void => {
    if (!informer.synced) return;
    const next = versionOf(informer, log, version);
    if (next < 0) found.push(`${when}: the lister shows no state since version ${version}`);
    else version = next;
  };
  for (const [index, step] of steps.entries()) {
    if (index === startAfter) watched.start();
    if (step.do === "subscribe") histories.push(subscribe(informer));
    else if (step.do !== "wait") apply(log, step);
    await clock.advance(step.do === "wait" ? step.ms : 0);
    look(`after step ${index} (${step.do})`);
  }
  if (steps.length <= startAfter) watched.start();
  log.heal();
  log.write("last", { colour: "red" });
  await clock.advance(600_000);
  look("at the end");
  if (version !== log.states.length - 1) found.push(`the lister stayed at version ${version}`);
  if (informer.problem() !== undefined) found.push(`it still has a problem: ${informer.problem()}`);
  found.push(...indexViolations(informer), ...log.hasty.map((request) => `${request} came too soon`));
  for (const history of histories) {
    found.push(...history.violations);
    const told = new Map([...history.objects.values()].map((thing) => [thing.metadata?.name ?? "", thing]));
    if (!isDeepStrictEqual(told, log.states.at(-1))) found.push("a subscriber was not told everything");
  }
  await watched.stop();
  if (log.openStreams > 0) found.push("a stream was left open");
  return found;
}

function* indexViolations(informer: Informer<Thing>): Generator<string> {
  for (const colour of COLOURS) {
    const wanted = [...informer.list()].filter((thing) => thing.colour === colour);
    const found = new Set(informer.byIndex("colour", colour));
    if (!isDeepStrictEqual(found, new Set(wanted))) yield `the index is wrong for ${colour}`;
  }
}

/** Numbers that repeat for a seed (a linear congruential generator; its quality does not matter here). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

describe("an informer on any history with any faults", () => {
  it("shows states that were, forward only, tells each life once and in order, and ends with the truth", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), setting, async (steps, server) => {
        expect(await violationsOf(steps, server)).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });
});
