/** Random histories of candidates on machines with bad clocks and a bad network: at most one leads, and soon one does. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import { createSilentLogger } from "./json-log.ts";
import { LeaderElector } from "./leader-election.ts";
import {
  CALM,
  createMachine,
  LeaseRegister,
  type LeaseWeather,
  leaseClientOf,
  type Machine,
} from "./testing/lease-world.ts";
import { seededRun, steps } from "./testing/property.ts";

const SLOTS = 3;
/** Rates of monotonic clocks; the fastest to the slowest is just within the 15:10 that the election allows. */
const [SLOWEST, FASTEST] = [0.82, 1.22];
const [LEASE_MS, RETRY_MS] = [15_000, 2_000];
/** From one attempt to the end of the next, at most: the period, its jitter of 1.2, a slow clock, and the requests. */
const ATTEMPT_MS = (RETRY_MS * 2.2) / SLOWEST + 4_000;
/** A lease, a request under way that times out (a deadline's half, twice), and two attempts. */
const ELECTED_MS = (LEASE_MS + 2 * 5_000) / SLOWEST + 2 * ATTEMPT_MS;

/** Work that ends this soon after it was told to leaves time to give the lease up. */
const GRACE_MS = 5_000;

/** How the work of a term behaves: ends so long after it was told to, and fails by itself after so long. */
interface Work {
  readonly endsMs: number;
  readonly failsAfterMs: number | undefined;
}

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
const setting = fc.record({
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
  /** Each way, when nothing is wrong. */
  calmMs: fc.constantFrom(1, 300),
  jitter: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 7 }),
});
type Setting = typeof setting extends fc.Arbitrary<infer S> ? S : never;

/** One process: an elector on a machine, from its start to its crash or its orderly end. */
interface Candidate {
  readonly identity: string;
  readonly machine: Machine;
  readonly elector: LeaderElector;
  readonly stop: AbortController;
  /** Of its present or last term. */
  lead: AbortSignal | undefined;
  /** Is it at work in that term? A term before may have work left that does not end though it was told to. */
  work: { running: boolean };
  readonly terms: { started: number; stopped: number };
  ended: boolean;
}

class World {
  readonly truth: VirtualClock = createVirtualClock();
  readonly register: LeaseRegister = new LeaseRegister((before, { spec }) => {
    if (spec?.holderIdentity === "") this.#onRelease(before?.spec?.holderIdentity ?? "");
  });
  readonly violations: string[] = [];
  readonly slots: Candidate[] = [];
  readonly cut = new Set<number>();
  /** Of one candidate, instead of the storm's. */
  readonly weather: (LeaseWeather | undefined)[] = [];
  calm = false;
  /** Terms begun by anybody. */
  terms = 0;
  readonly #setting: Setting;
  readonly #all: Candidate[] = [];
  #requests = 0;

  constructor(setting: Setting) {
    this.#setting = setting;
    for (let slot = 0; slot < SLOTS; slot++) this.start(slot, `c${slot}`);
  }

  get alive(): Candidate[] {
    return this.slots.filter(({ machine, stop }) => !machine.crashed && !stop.signal.aborted);
  }

  /** Those that may act: told to lead, not told to stop, and able to do anything at all. */
  get leaders(): Candidate[] {
    return this.#all.filter(({ machine, lead }) => !machine.crashed && lead?.aborted === false);
  }

  /** Everything that a process did not finish though it could. */
  get unfinished(): string[] {
    return this.#all.flatMap(({ identity, machine, terms, ended }) =>
      !machine.crashed && (!ended || terms.started !== terms.stopped) ? [`${identity} has not ended`] : [],
    );
  }

  start(slot: number, identity: string): void {
    const { clocks, jitter } = this.#setting;
    const machine = createMachine(this.truth, clocks[slot] ?? { rate: 1, skewMs: 0 });
    const client = leaseClientOf(this.register, {
      truth: this.truth,
      machine,
      weather: () => this.#weather(slot, machine),
    });
    let drawn = 0;
    const elector = new LeaderElector({
      client,
      lease: { namespace: "berth-system", name: "berth" },
      identity,
      log: createSilentLogger(),
      clock: machine.clock,
      random: () => jitter[drawn++ % jitter.length] ?? 0,
    });
    const candidate: Candidate = {
      identity,
      machine,
      elector,
      stop: new AbortController(),
      lead: undefined,
      work: { running: false },
      terms: { started: 0, stopped: 0 },
      ended: false,
    };
    this.slots[slot] = candidate;
    this.#all.push(candidate);
    void this.#run(candidate);
  }

  /** One term after the other until it is stopped. */
  async #run(candidate: Candidate): Promise<void> {
    const { elector, stop, terms } = candidate;
    while (!stop.signal.aborted) {
      const run = elector.run(stop.signal, {
        onStartedLeading: (lead) => this.#lead(candidate, lead),
        onStoppedLeading: () => {
          terms.stopped += 1;
          if (candidate.lead?.aborted === false)
            this.violations.push(`${elector.identity} was never told to stop`);
        },
      });
      // The work says why it failed; here it fails on purpose.
      await run.catch(() => "lost");
    }
    candidate.ended = true;
  }

  async #lead(candidate: Candidate, lead: AbortSignal): Promise<void> {
    const { identity, machine } = candidate;
    for (const other of this.#all) {
      if (other === candidate || other.machine.crashed) continue;
      const still = other.elector.leading ? "leads" : "has not been told to stop";
      if (other.elector.leading || (other.lead?.aborted === false && !other.machine.stalled))
        this.violations.push(`${identity} begins to lead while ${other.identity} ${still}`);
    }
    candidate.lead = lead;
    const own = { running: true };
    candidate.work = own;
    candidate.terms.started += 1;
    const work = this.#setting.works[this.terms++ % this.#setting.works.length];
    try {
      await this.#work(machine, lead, work);
    } finally {
      own.running = false;
    }
  }

  async #work({ clock }: Machine, lead: AbortSignal, work: Work | undefined): Promise<void> {
    const { endsMs = 0, failsAfterMs } = work ?? {};
    // In the calm at the end nothing fails any more.
    if (failsAfterMs !== undefined && !this.calm) {
      const failed = await sleep(clock, failsAfterMs, lead);
      if (failed) throw new Error("the work failed");
    } else
      await new Promise<void>((resolve) => lead.addEventListener("abort", () => resolve(), { once: true }));
    await sleep(clock, endsMs);
  }

  #onRelease(holder: string): void {
    for (const { identity, work, machine } of this.#all)
      if (identity === holder && work.running && !machine.crashed)
        this.violations.push(`the lease was given up while ${identity} was at work`);
  }

  #weather(slot: number, machine: Machine): LeaseWeather {
    const { storm, calmMs } = this.#setting;
    const calm: LeaseWeather = { thereMs: calmMs, backMs: calmMs };
    if (machine.crashed || this.cut.has(slot)) return { ...calm, fault: "request lost" };
    return this.calm ? calm : (this.weather[slot] ?? storm[this.#requests++ % storm.length] ?? calm);
  }
}

/** The leader hears the answers later and later, and then none. */
async function fade({ truth, slots, leaders: [leader], weather, cut }: World, ms: number): Promise<void> {
  const slot = slots.findIndex((it) => it === leader);
  if (slot < 0) return;
  weather[slot] = { thereMs: 1, backMs: 4_000 };
  await truth.advance(ms);
  cut.add(slot);
  await truth.advance(20_000);
}

/** The leader crashes, and whoever takes the lead stalls before it knows. */
async function stallUsurper(world: World, ms: number): Promise<void> {
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

async function carryOut(world: World, step: Step, index: number): Promise<void> {
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
async function violationsOf(steps: readonly Step[], setting: Setting): Promise<string[]> {
  const world = new World(setting);
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
async function handOver(world: World): Promise<void> {
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
