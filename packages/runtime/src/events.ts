import { ApiError, events, isApiError, isRefusalOfObject, type KubeClient } from "@berth/kube";
import { type Clock, sleep, systemClock } from "./clock.ts";
import type { Component, Running } from "./component.ts";
import { EventBook, type EventInput, type EventSeries, seriesOf } from "./event-series.ts";
import type { Logger } from "./log.ts";
import type { Counter, MetricsRegistry } from "./metrics.ts";

/** The part of a client that recording needs. */
export type EventClient = Pick<KubeClient, "create" | "patch">;

/** The reporting controller and its client. */
export interface EventRecorderOptions {
  readonly client: EventClient;
  readonly log: Logger;
  /** Names this process among the replicas, usually the pod's name. At most 128 bytes. */
  readonly reportingInstance: string;
  /** The reporting controller, a qualified name: `example.com/controller`. */
  readonly reportingController: string;
  /** Registry for `events_total`. */
  readonly metrics?: MetricsRegistry;
  readonly clock?: Clock;
  /** In [0, 1): spreads retries and makes names unique. Default `Math.random`. */
  readonly random?: () => number;
}

/** `maxTriesPerEvent` and `defaultSleepDuration` of client-go's tools/events; the sleep varies by a quarter. */
const MAX_TRIES = 12;
const RETRY_MS = 10_000;
/** Time to write the remaining events when the recorder stops, unless it is aborted. */
const FLUSH_MS = 2000;

type Result = "created" | "updated" | "limited" | "overflow" | "invalid" | "failed";

/**
 * Writes Events of events.k8s.io/v1 in the background.
 *
 * Guarantees: `record` never waits and never throws; memory is bounded; equal events become one Event with a series,
 * updated ever more rarely; one object cannot flood the cluster. Events help users and are not a log: events that
 * cannot be written are dropped and counted.
 */
export class EventRecorder implements Component {
  readonly name = "events";
  readonly #client: EventClient;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #book: EventBook;
  readonly #counter: Counter<"result"> | undefined;
  /** No write is tried before it, because the server cannot be reached. Monotonic ms. */
  #holdUntilMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;
  #wake: (() => void) | undefined;

  constructor(options: EventRecorderOptions) {
    this.#client = options.client;
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#book = new EventBook({
      reportingController: options.reportingController,
      reportingInstance: options.reportingInstance.slice(0, 128) || "unknown",
      random: this.#random,
    });
    this.#counter = options.metrics?.counter<"result">({
      name: `${options.metrics.prefix}events_total`,
      help: "Kubernetes Events by outcome: created, updated (series), limited, overflow, invalid, failed.",
      labels: ["result"],
    });
  }

  /** Events that were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Queues an event. Works before `run` too. */
  record(input: EventInput): void {
    const outcome = this.#book.record(input, this.#clock.now(), this.#clock.monotonic());
    if (outcome === "limited" || outcome === "overflow" || outcome === "invalid") this.#drop(outcome);
    else this.#wake?.();
  }

  /** As a component it writes the remaining events while it drains, and drops them when it is aborted. */
  start(signal: AbortSignal): Promise<Running> {
    const draining = new AbortController();
    const ended = this.run(AbortSignal.any([draining.signal, signal]), signal);
    const drain = (): Promise<void> => {
      draining.abort();
      return ended;
    };
    return Promise.resolve({ ended, drain });
  }

  /** Writes until `signal` aborts, then the rest, for at most 2 s and until `cut` aborts. Never rejects. */
  async run(signal: AbortSignal, cut?: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#book.next();
      // An hour stands for "until woken": timers take no infinity.
      const dueAtMs =
        next === undefined ? this.#clock.monotonic() + 3_600_000 : Math.max(next.dueAt, this.#holdUntilMs);
      const waitMs = dueAtMs - this.#clock.monotonic();
      if (next === undefined || waitMs > 0) await this.#sleep(waitMs, signal);
      else await this.#write(next, signal);
    }
    await this.#flush(cut);
  }

  async #sleep(waitMs: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await sleep(this.#clock, waitMs, AbortSignal.any([signal, woken.signal]));
    this.#wake = undefined;
  }

  async #flush(cut: AbortSignal | undefined): Promise<void> {
    const untilMs = this.#clock.monotonic() + FLUSH_MS;
    for (let next = this.#book.next(); next !== undefined; next = this.#book.next()) {
      const leftMs = cut?.aborted ? 0 : untilMs - this.#clock.monotonic();
      const { tries } = next;
      if (leftMs > 0) await this.#write(next, cut, leftMs);
      // No later attempt is possible.
      if (leftMs <= 0 || next.tries > tries) this.#giveUp(next);
    }
  }

  async #write(series: EventSeries, signal: AbortSignal | undefined, timeoutMs = 10_000): Promise<void> {
    const { count, sentCount } = series;
    try {
      await this.#send(series, { timeoutMs, ...(signal && { signal }) });
      this.#book.written(series, count, this.#clock.monotonic());
      this.#counter?.inc({ result: sentCount === 0 ? "created" : "updated" });
    } catch (error) {
      if (signal?.aborted) return;
      const isPassing = error instanceof ApiError && error.retry === "backoff" && !isRefusalOfObject(error);
      const retry = isPassing && series.tries + 1 < MAX_TRIES;
      this.#log.debug("an event could not be written", {
        reason: series.event.reason,
        error: String(error),
        retry,
      });
      if (!retry) return this.#giveUp(series);
      const delayMs = Math.max(error.retryAfterMs ?? 0, RETRY_MS * (0.75 + this.#random() / 2));
      this.#holdUntilMs = this.#clock.monotonic() + delayMs;
      this.#book.postpone(series, this.#holdUntilMs);
    }
  }

  async #send(
    series: EventSeries,
    request: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<void> {
    const { event } = series;
    const of = { namespace: event.metadata?.namespace ?? "", name: event.metadata?.name ?? "" };
    const state = seriesOf(series);
    if (series.sentCount > 0) {
      try {
        await this.#client.patch(events, of, { type: "merge", body: { series: state } }, request);
        return;
      } catch (error) {
        // The server deletes events after an hour. This series begins anew, with its count.
        if (!isApiError(error, "notFound")) throw error;
      }
    }
    try {
      await this.#client.create(events, state === undefined ? event : { ...event, series: state }, {
        ...request,
        ...of,
      });
    } catch (error) {
      // An earlier attempt succeeded, but its answer was lost.
      if (!isApiError(error, "alreadyExists")) throw error;
    }
  }

  #giveUp(series: EventSeries): void {
    this.#book.drop(series);
    this.#drop("failed");
  }

  #drop(result: Result): void {
    this.#dropped += 1;
    this.#counter?.inc({ result });
  }
}
