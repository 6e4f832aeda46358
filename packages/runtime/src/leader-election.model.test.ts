/** Random histories of candidates on machines with bad clocks and a bad network: at most one leads, and soon one does. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ElectionSetting, ElectionWorld, SLOTS } from "./testing/election-world.ts";
import { CALM, type LeaseWeather } from "./testing/lease-world.ts";
import { seededRun, steps } from "./testing/property.ts";

/** Rates of monotonic clocks; the fastest to the slowest is just within the 15:10 that the election allows. */
const [SLOWEST, FASTEST] = [0.82, 1.22];
const [LEASE_MS, RETRY_MS] = [15_000, 2_000];
/** From one attempt to the end of the next, at most: the period, its jitter of 1.2, a slow clock, and the requests. */
const ATTEMPT_MS = (RETRY_MS * 2.2) / SLOWEST + 4_000;
/** A lease, a request under way that times out (a deadline's half, twice), and two attempts. */
const ELECTED_MS = (LEASE_MS + 2 * 5_000) / SLOWEST + 2 * ATTEMPT_MS;

/** Work that ends this soon after it was told to leaves time to give the lease up. */
const GRACE_MS = 5_000;

type Step =
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "crash" | "stop" | "restart" | "return" | "partition" | "heal"; readonly who: number }
  | { readonly do: "stall" | "jump"; readonly who: number; readonly ms: number }
  | { readonly do: "fade"; readonly ms: number }
  | { readonly do: "stall usurper"; readonly ms: number }
  | { readonly do: "weather"; readonly who: number; readonly weather: LeaseWeather | undefined };

const who = fc.nat({ max: SLOTS - 1 });
/** Slow answers more often than random ones: what is nearly too late is what finds faults. */
const delay = fc.oneof(fc.constantFrom(0, 200, 2_000, 4_000), fc.integer({ min: 0, max: 7_000 }));
const weather: fc.Arbitrary<LeaseWeather> = fc.record(
  {
    thereMs: delay,
    backMs: delay,
    fault: fc.constantFrom("request lost", "answer lost", "refused", "broken"),
  },
  { requiredKeys: ["thereMs", "backMs"] },
);
const wait = fc.oneof(fc.constantFrom(300, 1_000, 3_000), fc.integer({ min: 0, max: 25_000 }));
const between = (min: number, max: number): fc.Arbitrary<number> => fc.integer({ min, max });
const step: fc.Arbitrary<Step> = fc.oneof(
  steps(8, ["wait"], { ms: wait }),
  steps(6, ["crash", "stop", "restart", "restart", "return", "partition", "partition", "heal"], { who }),
  steps(3, ["stall"], { who, ms: between(0, 30_000) }),
  steps(1, ["jump"], { who, ms: between(-1e9, 1e9) }),
  steps(2, ["fade"], { ms: between(1_000, 9_000) }),
  steps(2, ["stall usurper"], { ms: between(10_000, 30_000) }),
  steps(3, ["weather"], { who, weather: fc.option(weather, { nil: undefined }) }),
);
const setting: fc.Arbitrary<ElectionSetting> = fc.record({
  storm: fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(CALM) }, weather), {
    minLength: 1,
    maxLength: 40,
  }),
  clocks: fc.array(
    fc.record({
      rate: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(SLOWEST, FASTEST) },
        fc.integer({ min: 82, max: 122 }).map((n) => n / 100),
      ),
      skewMs: fc.integer({ min: -1e9, max: 1e9 }),
    }),
    { minLength: SLOTS, maxLength: SLOTS },
  ),
  works: fc.array(
    fc.record({
      endsMs: fc.constantFrom(0, 0, 500, 4_000, 40_000),
      failsAfterMs: fc.constantFrom(undefined, undefined, undefined, 0, 9_000),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  calmMs: fc.constantFrom(1, 300),
  jitter: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 7 }),
});

/** The leader hears the answers later and later, and then none. */
async function fade(
  { truth, slots, leaders: [leader], weather, cut }: ElectionWorld,
  ms: number,
): Promise<void> {
  const slot = slots.findIndex((it) => it === leader);
  if (slot < 0) return;
  weather[slot] = { thereMs: 1, backMs: 4_000 };
  await truth.advance(ms);
  cut.add(slot);
  await truth.advance(20_000);
}

/** The leader crashes, and whoever takes the lead stalls before it knows. */
async function stallUsurper(world: ElectionWorld, ms: number): Promise<void> {
  const [leader] = world.leaders;
  if (leader === undefined) return;
  leader.machine.crash();
  const { truth, register } = world;
  const [writes, untilMs] = [register.writes.length, truth.monotonic() + 40_000];
  while (register.writes.length === writes && truth.monotonic() < untilMs)
    await truth.advance(truth.nextInMs ?? 1_000);
  const holder = register.current?.spec?.holderIdentity;
  world.slots.find(({ identity }) => identity === holder)?.machine.stall(ms);
  await truth.advance(ms);
}

async function carryOut(world: ElectionWorld, step: Step, index: number): Promise<void> {
  if (step.do === "wait") return world.truth.advance(step.ms);
  if (step.do === "fade") return fade(world, step.ms);
  if (step.do === "stall usurper") return stallUsurper(world, step.ms);
  const candidate = world.slots[step.who];
  if (candidate === undefined) return;
  switch (step.do) {
    case "crash":
      return candidate.machine.crash();
    case "stop":
      return candidate.stop.abort();
    case "restart":
      candidate.machine.crash();
      return world.start(step.who, `c${step.who}-${index}`);
    case "return":
      // Under its old name: the one before is dead, but what it sent may still arrive.
      candidate.machine.crash();
      return world.start(step.who, candidate.identity);
    case "partition":
      return void world.cut.add(step.who);
    case "heal":
      return void world.cut.delete(step.who);
    case "stall":
      return candidate.machine.stall(step.ms);
    case "jump":
      return candidate.machine.jump(step.ms);
    case "weather":
      world.weather[step.who] = step.weather;
  }
}

/** Runs the steps; then all faults end, a leader is elected, and at last everybody stops. Gives all that was wrong. */
async function violationsOf(steps: readonly Step[], setting: ElectionSetting): Promise<string[]> {
  const world = new ElectionWorld(setting);
  const { truth, violations } = world;
  for (const [index, step] of steps.entries()) {
    await carryOut(world, step, index);
    await truth.advance(0);
  }
  world.calm = true;
  world.cut.clear();
  // What is under way arrives, stalled machines wake, and work that takes its time ends.
  await truth.advance(60_000 / SLOWEST);
  await truth.advance(ELECTED_MS);
  const wanted = Math.min(1, world.alive.length);
  if (world.leaders.length !== wanted)
    violations.push(`${world.leaders.length} lead, of ${world.alive.length}`);
  const { terms } = world;
  await truth.advance(40_000);
  if (world.terms !== terms) violations.push("the lead changes hands without a reason");
  await handOver(world);
  for (const { stop } of world.slots) stop.abort();
  await truth.advance(60_000 / SLOWEST);
  return [...violations, ...world.unfinished];
}

/** The leader stops in order: when its work ends in good time, the next attempt of another succeeds. */
async function handOver(world: ElectionWorld): Promise<void> {
  const [leader] = world.leaders;
  if (leader === undefined) return;
  leader.stop.abort();
  await world.truth.advance(0);
  for (let waitedMs = 0; leader.work.running; waitedMs += 100) {
    if (waitedMs > GRACE_MS) return;
    await world.truth.advance(100);
  }
  await world.truth.advance(ATTEMPT_MS + 200);
  const wanted = Math.min(1, world.alive.length);
  if (world.leaders.length !== wanted) world.violations.push("nobody took over what was given up");
}

describe("candidates in any history", () => {
  const run = seededRun(250, process.env);
  it(
    `lead one at a time, and somebody soon leads once the faults have ended (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 20, size: "max" }), setting, async (steps, setting) => {
          expect(await violationsOf(steps, setting)).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
