import { isApiError, type KubeClient, type Lease, leases, type RequestOptions } from "@berth/kube";
import { type Clock, sleep, systemClock } from "./clock.ts";
import type { Logger } from "./log.ts";
import type { Gauge, MetricsRegistry } from "./metrics.ts";
import { toMicroTime } from "./micro-time.ts";

/** The part of a client that an election needs. */
export type LeaseClient = Pick<KubeClient, "get" | "create" | "replace">;

/** The Lease, the identity of this process, and the durations. */
export interface LeaderElectionOptions {
  readonly client: LeaseClient;
  /** The Lease that candidates compete for. */
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Names this process in the Lease. Must differ for every process and every restart: pod name plus a random part. */
  readonly identity: string;
  readonly log: Logger;
  /**
   * How long candidates wait after the last renewal before they take over, ms; written to the Lease in whole seconds.
   * Default 15,000. This and the next two are the defaults of client-go's leaderelection.
   */
  readonly leaseDurationMs?: number;
  /** A leader that has not renewed for this long stops leading, ms. Default 10,000; less than the lease duration. */
  readonly renewDeadlineMs?: number;
  /** Time between attempts, ms. Default 2000. Candidates add a random share of up to 1.2 times as much. */
  readonly retryPeriodMs?: number;
  /** Releases the Lease on stop, once the work has ended, so that the next leader need not wait. Default true. */
  readonly releaseOnStop?: boolean;
  readonly metrics?: MetricsRegistry;
  /** Default: the machine's. Wall time is only written to the Lease and never compared. */
  readonly clock?: Clock;
  /** In [0, 1). Default `Math.random`. */
  readonly random?: () => number;
}

/** The work of the leader. */
export interface LeaderCallbacks {
  /**
   * Does the work of the leader until `lead` aborts. Returning early keeps the lead; rejecting gives it up and
   * makes `run` reject with the same error.
   */
  onStartedLeading(lead: AbortSignal): Promise<void> | void;
  /** Called once per `onStartedLeading`, after the work has ended or its time limit has passed. */
  onStoppedLeading?(): void;
}

/** Why a `run` ended: `signal` aborted, or another process took the Lease or contact was lost. */
export type TermEnd = "stopped" | "lost";

/** client-go's `JitterFactor`: keeps candidates that started together from trying together. */
const JITTER_FACTOR = 1.2;

interface Term {
  readonly lead: AbortController;
  /** Monotonic time at which the last successful renewal was *sent*: others cannot have seen it earlier. */
  renewedAtMs: number;
}

/**
 * Elects one leader among processes through a Lease of coordination.k8s.io/v1, compatible with client-go's.
 *
 * Guarantees, while the monotonic clocks of all candidates run at about the same rate (10:15 is tolerated): the `lead`
 * signal aborts before another candidate can take the Lease. Wall clocks may be wrong by any amount, as a candidate
 * waits the lease duration after *it saw* the last write. Every write is bound to the uid and resourceVersion read
 * before, so one of two writers loses. A leader that stalls longer than the lease (a blocked event loop) notices too
 * late. Check `leading` right before work that must not be done twice.
 */
export class LeaderElector {
  readonly identity: string;
  readonly #options: LeaderElectionOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  readonly #gauge: Gauge<"lease"> | undefined;
  /** The Lease as last read or written, and when (monotonic). */
  #observed: { readonly lease: Lease; readonly atMs: number } | undefined;
  #term: Term | undefined;
  /** The last term ended because the lease was lost. Decisions of that term must not be written any more. */
  #wasLost = false;
  #lastAnswerMs: number;
  #lastError: string | undefined;

  /** @throws RangeError when the durations contradict each other or the identity is empty. */
  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    this.identity = options.identity;
    this.#clock = options.clock ?? systemClock;
    this.#log = options.log.with({ lease: `${options.lease.namespace}/${options.lease.name}` });
    this.#leaseDurationMs = options.leaseDurationMs ?? 15_000;
    this.#renewDeadlineMs = options.renewDeadlineMs ?? 10_000;
    this.#retryPeriodMs = options.retryPeriodMs ?? 2000;
    this.#lastAnswerMs = this.#clock.monotonic();
    this.#checkDurations();
    this.#gauge = options.metrics?.gauge<"lease">({
      name: `${options.metrics.prefix}leader`,
      help: "1 while this process holds the lease and leads, else 0.",
      labels: ["lease"],
    });
    this.#gauge?.set(0, { lease: options.lease.name });
  }

  /** Whether this process leads right now. Exact even when the event loop stalled past the deadline. */
  get leading(): boolean {
    const term = this.#term;
    return term !== undefined && !term.lead.signal.aborted && this.#leftMs(term.renewedAtMs) > 0;
  }

  /**
   * Whether this process may write: always before it has ever led, afterwards only while it leads. Ask right before
   * each write, because a process frozen for longer than its lease must not continue.
   */
  get mayWrite(): boolean {
    return this.#term === undefined ? !this.#wasLost : this.leading;
  }

  /** The last observed holder; `""` when the Lease has no holder or has not been read. */
  get holder(): string {
    return holderOf(this.#observed?.lease);
  }

  /** For readiness: why the election does not work, `undefined` while it works (standing by included). */
  problem(): string | undefined {
    const silentMs = this.#clock.monotonic() - this.#lastAnswerMs;
    if (this.#lastError === undefined || silentMs <= this.#leaseDurationMs) return undefined;
    return `the lease could not be read or written for ${Math.round(silentMs / 1000)} s: ${this.#lastError}`;
  }

  /**
   * Waits for the lead, leads, and returns when the lead ends: `stopped` after `signal` aborted (even if it never led),
   * else `lost`. May be called again afterwards, but not twice at one time.
   */
  async run(signal: AbortSignal, callbacks: LeaderCallbacks): Promise<TermEnd> {
    const renewedAtMs = await this.#acquire(signal);
    if (renewedAtMs === undefined) return "stopped";
    const term: Term = { lead: new AbortController(), renewedAtMs };
    this.#term = term;
    this.#wasLost = false;
    this.#gauge?.set(1, { lease: this.#options.lease.name });
    this.#log.info("started leading", { identity: this.identity });
    const work = startWork(callbacks, term.lead);
    await this.#renewUntilOver(term, signal);
    this.#wasLost = !signal.aborted && work.failure === undefined;
    term.lead.abort();
    const ended = await this.#drain(term.renewedAtMs, work.ended);
    if (ended && (signal.aborted || work.failure !== undefined)) await this.#release(term.renewedAtMs);
    this.#term = undefined;
    this.#gauge?.set(0, { lease: this.#options.lease.name });
    this.#log.info("stopped leading", { identity: this.identity, workEnded: ended });
    callbacks.onStoppedLeading?.();
    if (work.failure !== undefined) throw work.failure.error;
    return signal.aborted ? "stopped" : "lost";
  }

  /** Returns when the write that won was sent; `undefined` when `signal` aborted first. */
  async #acquire(signal: AbortSignal): Promise<number | undefined> {
    while (!signal.aborted) {
      const sentAtMs = await this.#attempt(() => this.#tryAcquire(signal), signal);
      if (sentAtMs !== undefined && signal.aborted) await this.#release(sentAtMs);
      else if (sentAtMs !== undefined && this.#leftMs(sentAtMs) > 0) return sentAtMs;
      const jitter = (this.#options.random ?? Math.random)() * JITTER_FACTOR;
      await sleep(this.#clock, this.#retryPeriodMs * (1 + jitter), signal);
    }
    return undefined;
  }

  async #tryAcquire(signal: AbortSignal): Promise<number | undefined> {
    const lease = await this.#read(signal);
    const holder = holderOf(this.#observed?.lease);
    // A user may delete the Lease of a living leader. It counts as held until that leader must have noticed.
    if (holder !== "" && holder !== this.identity && !this.#expired()) return undefined;
    // Without the signal: an aborted write may still win, and then locks out all candidates for a lease duration.
    return lease === undefined ? this.#create() : this.#write(lease);
  }

  async #renewUntilOver(term: Term, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, term.lead.signal]);
    let deadline: Disposable | undefined;
    const arm = (): void => {
      deadline?.[Symbol.dispose]();
      deadline = this.#clock.schedule(this.#leftMs(term.renewedAtMs), () => {
        this.#log.error("the lease could not be renewed in time", { error: this.#lastError });
        term.lead.abort();
      });
    };
    arm();
    while (await sleep(this.#clock, this.#retryPeriodMs, over)) {
      const sentAtMs = await this.#attempt(() => this.#tryRenew(term, over), over);
      if (sentAtMs !== undefined && this.#leftMs(term.renewedAtMs) > 0) {
        term.renewedAtMs = sentAtMs;
        arm();
      }
    }
    deadline?.[Symbol.dispose]();
  }

  async #tryRenew(term: Term, signal: AbortSignal): Promise<number | undefined> {
    const known = this.#observed?.lease;
    if (known !== undefined && holderOf(known) === this.identity) {
      try {
        return await this.#write(known, signal);
      } catch (error) {
        if (!isApiError(error, "conflict", "uidMismatch", "notFound")) throw error;
      }
    }
    // Another process wrote it, or an earlier renewal succeeded but its answer was lost.
    const lease = await this.#read(signal);
    if (lease === undefined) return this.#create(signal);
    if (holderOf(lease) === this.identity) return this.#write(lease, signal);
    this.#log.error("another process holds the lease", { holder: holderOf(lease) });
    term.lead.abort();
    return undefined;
  }

  /** Runs one attempt. A failure is kept for `problem`, and the result is `undefined`. */
  async #attempt(
    attempt: () => Promise<number | undefined>,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    try {
      const sentAtMs = await attempt();
      this.#lastAnswerMs = this.#clock.monotonic();
      this.#lastError = undefined;
      return sentAtMs;
    } catch (error) {
      if (!signal.aborted) {
        const isKnown = this.#lastError !== undefined;
        this.#lastError = String(error);
        this.#log[isKnown ? "debug" : "warn"]("the lease could not be read or written; trying again", {
          error: this.#lastError,
        });
      }
      return undefined;
    }
  }

  async #read(signal?: AbortSignal): Promise<Lease | undefined> {
    try {
      const lease = await this.#options.client.get(leases, this.#options.lease, this.#request(signal));
      this.#observe(lease);
      return lease;
    } catch (error) {
      if (isApiError(error, "notFound")) return undefined;
      throw error;
    }
  }

  async #create(signal?: AbortSignal): Promise<number> {
    const sentAtMs = this.#clock.monotonic();
    const metadata = { name: this.#options.lease.name, namespace: this.#options.lease.namespace };
    const blank: Lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
    const lease = await this.#options.client.create(leases, this.#held(blank), {
      ...this.#request(signal),
      namespace: this.#options.lease.namespace,
    });
    this.#observe(lease);
    return sentAtMs;
  }

  async #write(lease: Lease, signal?: AbortSignal): Promise<number> {
    const sentAtMs = this.#clock.monotonic();
    this.#observe(await this.#options.client.replace(leases, this.#held(lease), this.#request(signal)));
    return sentAtMs;
  }

  /** The Lease with us as holder; everything else in it stays. */
  #held(lease: Lease): Lease {
    const now = toMicroTime(this.#clock.now());
    const { spec } = lease;
    const ours = spec?.holderIdentity === this.identity;
    const transitions = (spec?.leaseTransitions ?? 0) + (ours || spec === undefined ? 0 : 1);
    return {
      ...lease,
      spec: {
        ...spec,
        holderIdentity: this.identity,
        leaseDurationSeconds: Math.ceil(this.#leaseDurationMs / 1000),
        acquireTime: ours ? (spec.acquireTime ?? now) : now,
        renewTime: now,
        leaseTransitions: transitions,
      },
    };
  }

  /** Releases the Lease. Call it only after the work has ended, because another process may lead from then on. */
  async #release(renewedAtMs: number): Promise<void> {
    if (!(this.#options.releaseOnStop ?? true)) return;
    const timeoutMs = this.#leftMs(renewedAtMs);
    if (timeoutMs <= 0) return;
    const giveUp = async (): Promise<void> => {
      const lease = this.#observed?.lease;
      if (lease === undefined || holderOf(lease) !== this.identity) return;
      const now = toMicroTime(this.#clock.now());
      const spec = {
        ...lease.spec,
        holderIdentity: "",
        leaseDurationSeconds: 1,
        acquireTime: now,
        renewTime: now,
      };
      this.#observe(await this.#options.client.replace(leases, { ...lease, spec }, { timeoutMs }));
    };
    try {
      await giveUp().catch(async (error: unknown) => {
        if (!isApiError(error, "conflict")) throw error;
        // A renewal that stopping aborted may have succeeded all the same.
        await this.#read();
        await giveUp();
      });
    } catch (error) {
      this.#log.warn("the lease could not be released; the others wait until it ends", {
        error: String(error),
      });
    }
  }

  /** Waits for the work to end, but no longer than the Lease keeps other candidates away. */
  async #drain(renewedAtMs: number, ended: Promise<void>): Promise<boolean> {
    const over = new AbortController();
    const leftMs = renewedAtMs + this.#leaseDurationMs - this.#clock.monotonic();
    const done = ended.then(() => true);
    const late = sleep(this.#clock, leftMs, over.signal).then(() => false);
    const inTime = await Promise.race([done, late]);
    over.abort();
    if (!inTime) this.#log.error("the work of the leader did not end in time", { identity: this.identity });
    return inTime;
  }

  #observe(lease: Lease): void {
    const before = this.#observed?.lease.metadata;
    const same =
      before?.uid === lease.metadata?.uid && before?.resourceVersion === lease.metadata?.resourceVersion;
    if (same && this.#observed !== undefined) return;
    const previous = this.holder;
    this.#observed = { lease, atMs: this.#clock.monotonic() };
    if (this.holder !== previous)
      this.#log.info("the holder of the lease changed", { from: previous, to: this.holder });
  }

  /** Has the observed lease duration passed since this process first saw the last write? */
  #expired(): boolean {
    if (this.#observed === undefined) return true;
    const seconds = this.#observed.lease.spec?.leaseDurationSeconds;
    const durationMs = seconds === undefined || seconds <= 0 ? this.#leaseDurationMs : seconds * 1000;
    return this.#clock.monotonic() - this.#observed.atMs >= durationMs;
  }

  #leftMs(renewedAtMs: number): number {
    return renewedAtMs + this.#renewDeadlineMs - this.#clock.monotonic();
  }

  /** Half the deadline, so that a lost request leaves time for a second one. */
  #request(signal: AbortSignal | undefined): RequestOptions {
    return { timeoutMs: this.#renewDeadlineMs / 2, ...(signal && { signal }) };
  }

  #checkDurations(): void {
    if (this.identity === "") throw new RangeError("the identity of a candidate must not be empty");
    if (!(this.#leaseDurationMs > this.#renewDeadlineMs)) {
      throw new RangeError("leaseDurationMs must be greater than renewDeadlineMs");
    }
    if (!(this.#renewDeadlineMs > this.#retryPeriodMs * JITTER_FACTOR) || !(this.#retryPeriodMs > 0)) {
      throw new RangeError(
        `renewDeadlineMs must be greater than ${JITTER_FACTOR} times retryPeriodMs, above 0`,
      );
    }
  }
}

function holderOf(lease: Lease | undefined): string {
  return lease?.spec?.holderIdentity ?? "";
}

/** Starts the work and owns its promise; a failure ends the lead. */
function startWork(
  callbacks: LeaderCallbacks,
  lead: AbortController,
): { ended: Promise<void>; failure?: { error: unknown } } {
  const work: { ended: Promise<void>; failure?: { error: unknown } } = { ended: Promise.resolve() };
  work.ended = (async () => callbacks.onStartedLeading(lead.signal))().catch((error: unknown) => {
    // An error that aborted work throws is no failure.
    if (!lead.signal.aborted) work.failure = { error };
    lead.abort();
  });
  return work;
}
