/** Random histories of a log, watched by two informers through random faults and restarts, on a virtual clock. */
import type { ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "./clock.ts";
import { COLOURS, Observer } from "./testing/informer-observer.ts";
import { randomFrom, seededRun, steps } from "./testing/property.ts";
import { VersionLog } from "./testing/version-log.ts";

const INFORMERS = 2;

type Step =
  | { readonly do: "write" | "remove" | "recreate"; readonly name: string; readonly colour: string }
  | { readonly do: "cut" | "end" | "break off" | "expire" | "forget" | "repeat" | "bookmark" }
  | { readonly do: "error event" | "fail next"; readonly failure: ApiFailure; readonly retryAfterMs: number }
  | { readonly do: "subscribe"; readonly who: number }
  | { readonly do: "restart"; readonly who: number }
  | { readonly do: "lag"; readonly versions: number }
  | { readonly do: "break off snapshot"; readonly ms: number }
  | { readonly do: "wait"; readonly ms: number };

const name = fc.constantFrom("a", "b", "c", "d", "e");
const who = fc.nat({ max: INFORMERS - 1 });
const failure = fc.constantFrom<ApiFailure>(
  { kind: "unreachable" },
  { kind: "serverError", status: 500 },
  { kind: "tooManyRequests", causes: [] },
  { kind: "forbidden" },
  { kind: "expired" },
  { kind: "undecodable" },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  steps(8, ["write", "write", "remove", "recreate"], { name, colour: fc.constantFrom(...COLOURS) }),
  steps(6, ["cut", "end", "break off", "expire", "forget", "forget", "repeat", "bookmark"], {}),
  steps(3, ["error event", "fail next"], { failure, retryAfterMs: fc.constantFrom(0, 0, 5_000) }),
  steps(1, ["subscribe"], { who }),
  steps(1, ["restart"], { who }),
  steps(1, ["break off snapshot"], { ms: fc.constantFrom(220, 240, 280, 700, 1_100, 1_500, 2_000) }),
  steps(1, ["lag"], { versions: fc.nat({ max: 5 }) }),
  steps(4, ["wait"], { ms: fc.constantFrom(1, 20, 300, 600, 2_000, 40_000) }),
);

const setting = fc.record({
  latencyMs: fc.constantFrom(0, 15, 400),
  refusesStreams: fc.constantFrom(false, false, true),
  losesEndMark: fc.constantFrom(false, false, true),
  /** Steps before the informers start. */
  startAfter: fc.nat(8),
  pageSize: fc.constantFrom(1, 2, 500),
  seed: fc.nat(),
});
type Setting = typeof setting extends fc.Arbitrary<infer S> ? S : never;

function apply(
  log: VersionLog,
  step: Exclude<Step, { do: "wait" | "subscribe" | "restart" | "break off snapshot" }>,
): void {
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
    case "lag":
      return log.lag(step.versions);
  }
}

/** Runs the steps against informers. Gives all that was wrong. */
async function violationsOf(
  steps: readonly Step[],
  { seed, pageSize, startAfter, ...server }: Setting,
): Promise<string[]> {
  const clock = createVirtualClock();
  const log = new VersionLog({ ...server, clock });
  const random = randomFrom(seed);
  const observe = (): Observer => new Observer(log, { clock, pageSize, random });
  const observers = Array.from({ length: INFORMERS }, observe);
  const found: string[] = [];
  for (const [index, step] of steps.entries()) {
    if (index === startAfter) for (const observer of observers) observer.start();
    if (step.do === "subscribe") observers[step.who]?.subscribe();
    else if (step.do === "restart") {
      const before = index < startAfter ? undefined : observers[step.who];
      if (before === undefined) continue;
      await before.stop();
      found.push(...before.violations);
      const fresh = observe();
      observers[step.who] = fresh;
      fresh.start();
    } else if (step.do === "break off snapshot") {
      log.forget();
      await clock.advance(step.ms);
      log.end("at once");
    } else if (step.do !== "wait") apply(log, step);
    await clock.advance(step.do === "wait" ? step.ms : 0);
    for (const observer of observers) observer.look(`after step ${index} (${step.do})`);
  }
  if (steps.length <= startAfter) for (const observer of observers) observer.start();
  log.heal();
  log.write("last", { colour: "red" });
  await clock.advance(600_000);
  for (const observer of observers) found.push(...observer.finish());
  found.push(...log.hasty.map((request) => `${request} came too soon`));
  for (const observer of observers) await observer.stop();
  if (log.openStreams > 0) found.push("a stream was left open");
  return found;
}

describe("informers on any history with any faults", () => {
  const run = seededRun(1500, process.env);
  it(
    `show states that were, forward only, tell each life once and in order, and end with the truth (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30, size: "max" }), setting, async (steps, server) => {
          expect(await violationsOf(steps, server)).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
