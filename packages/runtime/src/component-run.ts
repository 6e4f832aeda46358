import { type Clock, sleep } from "./clock.ts";
import type { Component, Running } from "./component.ts";
import type { Logger } from "./log.ts";

export interface StopLimits {
  /** Monotonic time by which the component must have ended. */
  readonly byMs: number;
  /** Part of it for work in flight, at most. 0: abort at once. */
  readonly drainMs: number;
}

export interface ComponentRunOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** The component failed, or ended before its signal aborted. Called at most once, and never while stopping. */
  readonly onFailure: (error: unknown) => void;
}

/** One component from start to end. Nothing here throws or rejects: failures go to `onFailure`. */
export class ComponentRun {
  readonly component: Component;
  readonly #options: ComponentRunOptions;
  readonly #abort = new AbortController();
  readonly #settled = Promise.withResolvers<void>();
  #state: "waiting" | "starting" | "running" | "ended" = "waiting";
  #running: Running | undefined;
  #stopping = false;

  constructor(component: Component, options: ComponentRunOptions) {
    this.component = component;
    this.#options = options;
  }

  /** Resolves `true` once it has started; `false` when the start failed or the component is being stopped. */
  start(): Promise<boolean> {
    if (this.#stopping) return Promise.resolve(false);
    const started = Promise.withResolvers<boolean>();
    this.#state = "starting";
    void this.#run(started.resolve);
    return started.promise;
  }

  /** Aborts its signal now, without draining. */
  abort(): void {
    this.#stopping = true;
    this.#abort.abort();
    if (this.#state === "waiting") this.#end();
  }

  /** Drains, then aborts. Resolves `false` when it has not ended in time, without waiting any longer. */
  async stop({ byMs, drainMs }: StopLimits): Promise<boolean> {
    const { clock, log } = this.#options;
    this.#stopping = true;
    if (drainMs > 0 && this.#running !== undefined && !this.#abort.signal.aborted) {
      const limitMs = Math.min(drainMs, byMs - clock.monotonic());
      const inTime = await settlesWithin(clock, this.#drain(this.#running), limitMs);
      if (!inTime) log.warn("work in flight did not end in time and is aborted", { limitMs });
    }
    this.abort();
    return settlesWithin(clock, this.#settled.promise, byMs - clock.monotonic());
  }

  /** Resolves when it has ended; never when it is stuck. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Why other components cannot rely on it now; `undefined` when they can. */
  problem(): string | undefined {
    if (this.#state === "ended") return "it has ended";
    if (this.#stopping) return "it is stopping";
    if (this.#state === "waiting") return "it waits for others to start";
    return this.component.problem?.() ?? (this.#state === "starting" ? "it is starting" : undefined);
  }

  /** The component's own problem while it runs; `undefined` before and after. */
  problemWhileRunning(): string | undefined {
    return this.#state === "running" && !this.#stopping ? this.component.problem?.() : undefined;
  }

  async #run(started: (ok: boolean) => void): Promise<void> {
    try {
      this.#running = await this.component.start(this.#abort.signal);
      this.#state = "running";
      started(true);
      await this.#running.ended;
      if (!this.#stopping) this.#options.onFailure(new Error("it ended unexpectedly"));
    } catch (error) {
      if (this.#stopping) this.#reportLate(error);
      else this.#options.onFailure(error);
    }
    started(false);
    this.#end();
  }

  async #drain(running: Running): Promise<void> {
    try {
      await running.drain?.();
    } catch (error) {
      this.#reportLate(error);
    }
  }

  #end(): void {
    this.#state = "ended";
    this.#settled.resolve();
  }

  /** Only logs a failure during the stop, because it changes nothing any more. */
  #reportLate(error: unknown): void {
    this.#options.log.warn("failed while stopping", { error: String(error) });
  }
}

/** `true` when `promise` settles before the limit. */
async function settlesWithin(clock: Clock, promise: Promise<void>, limitMs: number): Promise<boolean> {
  const over = new AbortController();
  const late = sleep(clock, limitMs, over.signal).then(() => false);
  const inTime = await Promise.race([promise.then(() => true), late]);
  over.abort();
  return inTime;
}
