import type { Random } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import type { Component, Running } from "./component.ts";
import { type ControllerMetrics, declareControllerMetrics } from "./controller-metrics.ts";
import { type ObjectKey, type QueueKey, toQueueText } from "./key.ts";
import type { Logger } from "./log.ts";
import type { MetricsRegistry } from "./metrics.ts";
import type { Reconcile } from "./reconcile.ts";
import {
  describeFailure,
  type Outcome,
  ofLasting,
  outcomeOfDeadline,
  outcomeOfError,
  outcomeOfResult,
} from "./reconcile-outcome.ts";
import { isShared } from "./shared-failure.ts";
import type { Source } from "./source.ts";
import { type AddOptions, type Lease, type QueueTuning, WorkQueue } from "./work-queue.ts";

/** The reconciler of a controller, the sources of its keys, and its limits. */
export interface ControllerOptions<K extends QueueKey = ObjectKey> {
  /** Lower case, digits and dashes. The `controller` label of its metrics, and the name of its readiness check. */
  readonly name: string;
  readonly reconcile: Reconcile<K>;
  /** Where keys come from; see `watchFor`. `enqueue` adds more. */
  readonly sources?: readonly Source<K>[];
  readonly queue?: QueueTuning;
  /** Needed for keys that extend `ObjectKey`; see `WorkQueueOptions`. */
  readonly toText?: (key: K) => string;
  /** Reconciles running at one time, default 16: as many writes as may be in flight to one server. */
  readonly concurrency?: number;
  /** After this long the signal of a reconcile aborts, and its key is retried with backoff. Default 60,000. */
  readonly deadlineMs?: number;
  /** A reconcile that continues this long after its deadline is reported as stuck. Default 1,000. */
  readonly stuckAfterMs?: number;
  /** Delay before a key that failed permanently is retried without a change. Default 300,000, plus up to a fifth. */
  readonly slowRecheckMs?: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** Jitter of retries and slow rechecks. Default `Math.random`. */
  readonly random?: Random;
}

/**
 * Runs `reconcile` for keys, with these promises:
 *
 * - Never two reconciles of one key at one time, and a key asked for during its reconcile is reconciled again.
 * - A failed key is retried: with backoff, no sooner than the server asked; at a short base after a conflict; at the
 *   time that a `SharedFailure` names; slowly when only a change can help (`TerminalError`, invalid content). A failure
 *   of one key delays no other.
 * - A stuck reconcile keeps its key and its worker, and is reported; the other workers continue.
 */
export interface Controller<K extends QueueKey = ObjectKey> extends Component {
  /** Asks for a key, also before `start`. Ignored once stopping. */
  enqueue(key: K, options?: AddOptions): void;
  /** Keys that wait are due now: what made them wait has passed. Running reconciles go on. */
  retryNow(): void;
}

/**
 * Creates a controller; nothing happens before `start`.
 * @throws RangeError when the concurrency is not a whole number above 0.
 */
export function createController<K extends QueueKey = ObjectKey>(
  options: ControllerOptions<K>,
): Controller<K> {
  return new KeyedController(options);
}

/** One reconcile that has not returned. */
interface Run {
  readonly abort: AbortController;
  pastDeadline: boolean;
  stuck: boolean;
}

/**
 * Reconciles that only compute never leave the microtask queue. After this long a worker yields to timers and sockets,
 * so that probes are answered and the lease is renewed during the initial sync.
 */
const TURN_MS = 10;

class KeyedController<K extends QueueKey> implements Controller<K> {
  readonly name: string;
  readonly concurrency: number;
  readonly #options: ControllerOptions<K>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #queue: WorkQueue<K>;
  readonly #metrics: ControllerMetrics | undefined;
  readonly #toText: (key: K) => string;
  readonly #runs = new Set<Run>();
  /** By the text of the key: refusals in a row. */
  readonly #refusals = new Map<string, number>();
  #turn: { readonly startedAt: number; readonly over: Promise<void> } | undefined;
  #started = false;

  constructor(options: ControllerOptions<K>) {
    const { name, metrics, concurrency = 16, random = Math.random } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new RangeError(
        `controller ${name}: concurrency must be a whole number above 0, got ${concurrency}`,
      );
    }
    this.name = name;
    this.concurrency = concurrency;
    this.#options = options;
    this.#clock = options.clock;
    this.#log = options.log.with({ controller: name });
    this.#toText = options.toText ?? toQueueText;
    this.#queue = new WorkQueue<K>({
      ...options.queue,
      name,
      clock: options.clock,
      toText: this.#toText,
      backoff: { random, ...options.queue?.backoff },
      ...(metrics && { metrics }),
      onOverflow: (key, maxKeys) =>
        this.#log.error("the work queue is full and refuses keys", { maxKeys, key: this.#toText(key) }),
    });
    this.#metrics = metrics && declareControllerMetrics(metrics, name, this);
  }

  get active(): number {
    return this.#runs.size;
  }

  get stuck(): number {
    return this.#runs.values().reduce((count, run) => count + (run.stuck ? 1 : 0), 0);
  }

  enqueue(key: K, options?: AddOptions): void {
    this.#queue.add(key, options);
  }

  retryNow(): void {
    this.#queue.dueNow();
  }

  /** Reports only when every worker is stuck: one stuck key must not take the replica out of service. */
  problem(): string | undefined {
    if (this.stuck < this.concurrency) return undefined;
    return `all ${this.concurrency} workers are stuck in a reconcile past its deadline`;
  }

  /** Subscribes to the sources and starts the workers. Rejects with the error that a source throws. */
  start(signal: AbortSignal): Promise<Running> {
    if (this.#started) return Promise.reject(new Error(`controller ${this.name} was started before`));
    this.#started = true;
    const subscriptions = new DisposableStack();
    try {
      for (const source of this.#options.sources ?? []) {
        subscriptions.use(source.start((key, options) => this.enqueue(key, options)));
      }
    } catch (error) {
      this.#unsubscribe(subscriptions);
      return Promise.reject(error);
    }
    const drain = (): Promise<void> => {
      this.#unsubscribe(subscriptions);
      return this.#queue.shutDown();
    };
    const stop = (): void => {
      void drain();
      for (const run of this.#runs) run.abort.abort();
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    const workers = Array.from({ length: this.concurrency }, () => this.#work());
    return Promise.resolve({ ended: Promise.all(workers).then(() => undefined), drain });
  }

  /** A source that throws does not prevent the other sources and the workers from stopping. */
  #unsubscribe(subscriptions: DisposableStack): void {
    try {
      subscriptions.dispose();
    } catch (error) {
      this.#log.error("a source could not be disposed of", { error: describeFailure(error) });
    }
  }

  async #work(): Promise<void> {
    for (let lease = await this.#queue.next(); lease !== undefined; lease = await this.#queue.next()) {
      await this.#process(lease);
      lease.done();
      await this.#yieldTurn();
    }
  }

  async #process(lease: Lease<K>): Promise<void> {
    const startedAt = this.#clock.monotonic();
    const text = this.#toText(lease.key);
    const log = this.#log.with({ key: text });
    const run: Run = { abort: new AbortController(), pastDeadline: false, stuck: false };
    this.#runs.add(run);
    const outcome = await this.#reconcile(lease.key, run, log);
    this.#runs.delete(run);
    const tookMs = this.#clock.monotonic() - startedAt;
    if (run.stuck) log.warn("a stuck reconcile returned", { tookMs });
    // Stopped before its deadline: the result says nothing about the key, and the queue accepts no keys now.
    if (run.abort.signal.aborted && !run.pastDeadline) return;
    const lasting = ofLasting(outcome, this.#refusedInARow(text, outcome));
    this.#metrics?.reconciled(lasting.result, tookMs);
    this.#carryOn(lease, lasting, log);
  }

  /** Of this key, with this one: refusals of what was based on an old version. */
  #refusedInARow(text: string, { result, next }: Outcome): number {
    const count = result === "requeue" && next.step === "retry" ? (this.#refusals.get(text) ?? 0) + 1 : 0;
    if (count > 0) this.#refusals.set(text, count);
    else this.#refusals.delete(text);
    return count;
  }

  async #reconcile(key: K, run: Run, log: Logger): Promise<Outcome> {
    const { deadlineMs = 60_000, stuckAfterMs = 1_000 } = this.#options;
    using timers = new DisposableStack();
    const onDeadline = (): void => {
      run.pastDeadline = true;
      timers.use(this.#clock.schedule(stuckAfterMs, onStuck));
      run.abort.abort(new Error(`the reconcile did not end within ${deadlineMs} ms`));
    };
    const onStuck = (): void => {
      run.stuck = true;
      log.error("a reconcile ignores its deadline; its key is blocked until it returns", { deadlineMs });
    };
    timers.use(this.#clock.schedule(deadlineMs, onDeadline));
    try {
      const result = await this.#options.reconcile(key, { signal: run.abort.signal, log });
      return run.pastDeadline ? outcomeOfDeadline() : outcomeOfResult(result);
    } catch (error) {
      return run.pastDeadline ? outcomeOfDeadline(error) : outcomeOfError(error);
    }
  }

  /** Decides when the key is reconciled again. It keeps its priority: an initial sync stays behind live events. */
  #carryOn({ key, priority, retries }: Lease<K>, { result, next, error }: Outcome, log: Logger): void {
    if (next.step === "retry") {
      const retryInMs = Math.round(this.#queue.retry(key, { ...next, priority }));
      const level = result === "requeue" || isShared(error) ? "debug" : "warn";
      log[level]("the reconcile did not succeed", {
        result,
        retries,
        retryInMs,
        error: describeFailure(error),
      });
      return;
    }
    this.#queue.forget(key);
    if (next.step === "recheck") this.#queue.addAfter(key, next.afterMs, { priority });
    if (next.step === "recheckSlowly") {
      const { slowRecheckMs = 300_000, random = Math.random } = this.#options;
      this.#queue.addAfter(key, slowRecheckMs * (1 + random() / 5), { priority });
      log.error("the reconcile cannot succeed until something changes", { error: describeFailure(error) });
    }
  }

  /** Yields once the event loop turn that all workers share has lasted too long. */
  async #yieldTurn(): Promise<void> {
    const turn = (this.#turn ??= this.#startTurn());
    if (this.#clock.monotonic() - turn.startedAt >= TURN_MS) await turn.over;
  }

  #startTurn(): { readonly startedAt: number; readonly over: Promise<void> } {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    setImmediate(() => {
      this.#turn = undefined;
      resolve();
    });
    return { startedAt: this.#clock.monotonic(), over };
  }
}
