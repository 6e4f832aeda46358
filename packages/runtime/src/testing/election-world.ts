/** Candidates on machines with bad clocks and a bad network, and all that goes wrong among them. */
import { createVirtualClock, sleep, type VirtualClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { LeaderElector } from "../leader-election.ts";
import {
  createMachine,
  LeaseRegister,
  type LeaseWeather,
  leaseClientOf,
  type Machine,
} from "./lease-world.ts";

export const SLOTS = 3;

/** How the work of a term behaves: ends so long after it was told to, and fails by itself after so long. */
interface Work {
  readonly endsMs: number;
  readonly failsAfterMs: number | undefined;
}

export interface ElectionSetting {
  /** Of one request after the other, again and again. */
  readonly storm: readonly LeaseWeather[];
  /** Of the machine in each slot. */
  readonly clocks: readonly { readonly rate: number; readonly skewMs: number }[];
  /** Of one term after the other, again and again. */
  readonly works: readonly Work[];
  /** Each way, when nothing is wrong. */
  readonly calmMs: number;
  readonly jitter: readonly number[];
}

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

export class ElectionWorld {
  readonly truth: VirtualClock = createVirtualClock();
  readonly register: LeaseRegister = new LeaseRegister((before, { spec }) => {
    if (spec?.holderIdentity === "") this.#onRelease(before?.spec?.holderIdentity ?? "");
  });
  readonly violations: string[] = [];
  readonly slots: Candidate[] = [];
  readonly cut: Set<number> = new Set();
  /** Of one candidate, instead of the storm's. */
  readonly weather: (LeaseWeather | undefined)[] = [];
  calm = false;
  /** Terms begun by anybody. */
  terms = 0;
  readonly #setting: ElectionSetting;
  readonly #all: Candidate[] = [];
  #requests = 0;

  constructor(setting: ElectionSetting) {
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
