/**
 * Combines a caller's signal, a client's closing and a time limit into one AbortSignal. Disposing it removes its
 * listeners from long-lived signals, because a client makes millions of requests under one of them.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #parents: readonly AbortSignal[];
  readonly #abort: () => void;
  #timer: NodeJS.Timeout;
  #passed = false;

  constructor(timeoutMs: number, ...parents: readonly (AbortSignal | undefined)[]) {
    this.#parents = parents.filter((parent) => parent !== undefined);
    this.#abort = () => this.#controller.abort();
    for (const parent of this.#parents) {
      if (parent.aborted) this.#controller.abort();
      else parent.addEventListener("abort", this.#abort, { once: true });
    }
    this.#timer = this.#start(timeoutMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time limit, and not a caller, ended it. */
  get passed(): boolean {
    return this.#passed;
  }

  /** Begins another time limit in place of the first, as for a stream that has begun. */
  restart(timeoutMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start(timeoutMs);
  }

  /** The value of `promise`, or a rejection once the deadline ends. A later value goes to `discard`. */
  race<T>(promise: Promise<T>, discard: (late: T) => void = () => undefined): Promise<T> {
    const { signal } = this.#controller;
    return new Promise<T>((settle, fail) => {
      const end = (): void => {
        fail(signal.reason);
        promise.then(discard, () => undefined);
      };
      if (signal.aborted) return end();
      signal.addEventListener("abort", end, { once: true });
      promise.then(settle, fail).finally(() => signal.removeEventListener("abort", end));
    });
  }

  /** Aborts the signal and stops listening. */
  abort(): void {
    this.#controller.abort();
    this[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const parent of this.#parents) parent.removeEventListener("abort", this.#abort);
  }

  #start(timeoutMs: number): NodeJS.Timeout {
    const pass = (): void => {
      this.#passed = true;
      this.#controller.abort();
    };
    return setTimeout(pass, timeoutMs).unref();
  }
}
