import type { Clock } from "./clock.ts";
import type { Component } from "./component.ts";
import { ComponentRun } from "./component-run.ts";
import type { HealthCheck } from "./health-checks.ts";
import type { Logger } from "./log.ts";

/** The part of a `LeaderElector` that a manager needs. */
export interface LeaderElection {
  /**
   * Waits for the lead and keeps it until `signal` aborts or the lead is lost. Resolves once the work has ended or
   * cannot be waited for. Aborts `lead` before another process can lead, and releases the lease only after the work.
   */
  run(
    signal: AbortSignal,
    callbacks: { onStartedLeading(lead: AbortSignal): Promise<void> | void; onStoppedLeading?(): void },
  ): Promise<unknown>;
  /** Why the election is unreliable. Standing by is no problem. */
  problem?(): string | undefined;
}

/** Components that a Lease of their own leads. */
export interface LedApart {
  /** Names the Lease in checks, and in the cause of the end. */
  readonly lease: string;
  readonly election: LeaderElection;
  readonly elected: readonly Component[];
}

/** The components, their order, and the time limits of a stop. */
export interface ManagerOptions {
  /**
   * The components of every replica, in stages: those of one stage start together, after the stage before.
   * Usually servers (so that probes are answered while starting), then informers (started once their caches synced).
   */
  readonly always: readonly (readonly Component[])[];
  /** The components of the leader only, started last: controllers. */
  readonly elected?: readonly Component[];
  /** Absent: this process is the only one and leads. */
  readonly election?: LeaderElection;
  /** Each is led for itself. To lose any lead ends the run. Default none. */
  readonly apart?: readonly LedApart[];
  /**
   * Names of the components that the process cannot do without: their problems fail their readiness check. Problems of
   * other running components are warnings. Default all.
   */
  readonly vital?: readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Time from the stop signal to the end of `run`. Milliseconds, default 1,800. */
  readonly stopLimitMs?: number;
  /** Part of it in which a component may finish work in flight. Milliseconds, default 1,000. */
  readonly drainLimitMs?: number;
}

/** Why a manager ended. */
export type EndCause =
  | { readonly reason: "stopped" }
  /** `lease`: the one of `LedApart`. Absent: that of `ManagerOptions.election`. */
  | { readonly reason: "lost leadership"; readonly lease?: string }
  | { readonly reason: "failed"; readonly component: string; readonly error: unknown };

/** Why a run ended, and which components had not ended. */
export type RunEnd = EndCause & {
  /** Components that had not ended within the limit. They go on until the process ends. */
  readonly stillRunning: readonly string[];
};

/**
 * Time that an aborted component gets to end, so that a stuck one leaves time for the others. Milliseconds; a server
 * that closes its slow clients needs 400.
 */
const ABORT_LIMIT_MS = 500;

/** The component name of the election, in checks and reports. That of a lease apart is put behind it. */
const ELECTION = "leader-election";

/** Components that one election starts; without an election, this process leads. */
interface Group {
  readonly lease: string | undefined;
  readonly elected: readonly ComponentRun[];
  readonly election: ComponentRun | undefined;
}

/**
 * Starts components in order and stops them in reverse.
 *
 * - A component starts after all that it relies on: controllers see synced caches (except of eager informers).
 * - The lead signal of an election is the signal of the components that it elects, so both abort at the same instant.
 *   The lease is released only after these components have ended.
 * - A component that fails, or ends by itself, ends the run, with the component named. It never throws.
 */
export class Manager {
  /** One per component, for the readiness probe. A replica that stands by is ready. */
  readonly readyChecks: readonly HealthCheck[];
  readonly #options: ManagerOptions;
  readonly #always: readonly (readonly ComponentRun[])[];
  readonly #groups: readonly Group[];
  readonly #cause = Promise.withResolvers<EndCause>();
  #started = false;
  #ending = false;

  /** @throws RangeError when two components have one name, or the limits contradict each other. */
  constructor(options: ManagerOptions) {
    this.#options = options;
    const { always, apart = [] } = options;
    this.#always = always.map((stage) => stage.map((component) => this.#runOf(component)));
    this.#groups = [options, ...apart].map((led) => this.#groupOf(led));
    this.readyChecks = [
      ...this.#always.flat().map((run) => this.#checkOf(run, () => run.problem())),
      ...this.#groups.flatMap(({ elected, election }) => [
        // No problem while standing by: nothing elected runs then.
        ...elected.map((run) =>
          this.#checkOf(run, () => (election === undefined ? run.problem() : run.problemWhileRunning())),
        ),
        ...(election === undefined ? [] : [this.#checkOf(election, () => election.problem())]),
      ]),
    ];
    this.#checkOptions();
  }

  /**
   * Runs until `signal` aborts, the lead is lost, or a component fails; then stops everything within the limit.
   * May be called once. Resolves with the cause; rejects only when called again.
   */
  async run(signal: AbortSignal): Promise<RunEnd> {
    if (this.#started) throw new Error("a manager can run once");
    this.#started = true;
    const stop = (): void => this.#end({ reason: "stopped" });
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    void this.#startAll();
    const cause = await this.#cause.promise;
    signal.removeEventListener("abort", stop);
    const stillRunning = await this.#stopAll(cause);
    if (stillRunning.length > 0) this.#options.log.error("components did not stop in time", { stillRunning });
    return { ...cause, stillRunning };
  }

  /** The first cause counts. */
  #end(cause: EndCause): void {
    if (this.#ending) return;
    this.#ending = true;
    const error = cause.reason === "failed" ? { component: cause.component, error: String(cause.error) } : {};
    this.#options.log.info("stopping", { reason: cause.reason, ...error });
    this.#cause.resolve(cause);
  }

  async #startAll(): Promise<void> {
    for (const stage of this.#always) {
      if (!(await this.#startTogether(stage))) return;
    }
    await this.#startTogether(
      this.#groups.flatMap(({ elected, election }) => (election === undefined ? elected : [election])),
    );
  }

  async #startTogether(runs: readonly ComponentRun[]): Promise<boolean> {
    if (this.#ending) return false;
    const started = await Promise.all(runs.map((run) => run.start()));
    if (started.includes(false)) return false;
    this.#options.log.debug("started", { components: namesOf(runs) });
    return !this.#ending;
  }

  #groupOf(led: Pick<ManagerOptions, "elected" | "election"> & Partial<Pick<LedApart, "lease">>): Group {
    const { lease, election } = led;
    const elected = (led.elected ?? []).map((component) => this.#runOf(component));
    if (election === undefined) return { lease, elected, election };
    const component: Component = {
      name: lease === undefined ? ELECTION : `${ELECTION}-${lease}`,
      start: (signal) => Promise.resolve({ ended: elect(signal) }),
      problem: () => election.problem?.(),
    };
    const group: Group = { lease, elected, election: this.#runOf(component) };
    const elect = async (signal: AbortSignal): Promise<void> => {
      await election.run(signal, { onStartedLeading: (lead) => this.#lead(group, lead) });
      this.#lose(group);
    };
    return group;
  }

  #lose({ lease }: Group): void {
    this.#end({ reason: "lost leadership", ...(lease !== undefined && { lease }) });
  }

  /** Runs the leader's components; ends when all of them have ended. */
  async #lead(group: Group, lead: AbortSignal): Promise<void> {
    const { elected, lease } = group;
    const lose = (): void => {
      for (const run of elected) run.abort();
      this.#lose(group);
    };
    if (lead.aborted) lose();
    else lead.addEventListener("abort", lose, { once: true });
    if (await this.#startTogether(elected)) this.#options.log.info("leading", { ...(lease && { lease }) });
    await Promise.all(elected.map((run) => run.settled));
  }

  /** Stops elected components, the elections, then stages in reverse. Returns the names of those still running. */
  async #stopAll(cause: EndCause): Promise<readonly string[]> {
    const { clock, stopLimitMs, drainLimitMs } = this.#limits();
    const lastMs = clock.monotonic() + stopLimitMs;
    const stop = async (
      runs: readonly ComponentRun[],
      drainMs: number,
      abortMs = ABORT_LIMIT_MS,
    ): Promise<string[]> => {
      const byMs = Math.min(lastMs, clock.monotonic() + drainMs + abortMs);
      const ended = await Promise.all(runs.map((run) => run.stop({ byMs, drainMs })));
      return namesOf(runs.filter((_run, index) => ended[index] === false));
    };
    // After a lost lead another replica may begin, so nothing here may drain.
    const elected = this.#groups.flatMap((group) => group.elected);
    const stillRunning = await stop(elected, cause.reason === "lost leadership" ? 0 : drainLimitMs);
    // An election waits for the elected components as long as the lease allows. That is too long here.
    const electionMs = stillRunning.length > 0 ? 0 : ABORT_LIMIT_MS;
    const elections = this.#groups.flatMap(({ election }) => election ?? []);
    stillRunning.push(...(await stop(elections, 0, electionMs)));
    for (const stage of this.#always.toReversed()) stillRunning.push(...(await stop(stage, drainLimitMs)));
    return stillRunning;
  }

  #checkOf(run: ComponentRun, problem: () => string | undefined): HealthCheck {
    const { name } = run.component;
    const note = (): string | undefined => run.component.note?.();
    if (this.#options.vital?.includes(name) ?? true) return { name, check: problem, note };
    const warning = (): string | undefined => run.problemWhileRunning();
    return { name, check: () => (warning() === undefined ? problem() : undefined), warning, note };
  }

  #runOf(component: Component): ComponentRun {
    const { clock, log } = this.#options;
    return new ComponentRun(component, {
      clock,
      log: log.with({ component: component.name }),
      onFailure: (error) => this.#end({ reason: "failed", component: component.name, error }),
    });
  }

  #limits(): { readonly clock: Clock; readonly stopLimitMs: number; readonly drainLimitMs: number } {
    const { clock, stopLimitMs = 1_800, drainLimitMs = 1_000 } = this.#options;
    return { clock, stopLimitMs, drainLimitMs };
  }

  #checkOptions(): void {
    const names = this.readyChecks.map((check) => check.name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new RangeError(`two components are named ${twice}`);
    const { stopLimitMs, drainLimitMs } = this.#limits();
    if (!(drainLimitMs >= 0 && drainLimitMs < stopLimitMs)) {
      throw new RangeError(`drainLimitMs (${drainLimitMs}) must be less than stopLimitMs (${stopLimitMs})`);
    }
  }
}

function namesOf(runs: readonly ComponentRun[]): string[] {
  return runs.map((run) => run.component.name);
}

/** One line for people: why it ended, and what did not end in time. */
export function describeRunEnd(end: RunEnd): string {
  const why = end.reason === "failed" ? `${end.component} failed: ${messageOf(end.error)}` : end.reason;
  const late = end.stillRunning.length === 0 ? "" : `; still running: ${end.stillRunning.join(", ")}`;
  return `${why}${late}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
