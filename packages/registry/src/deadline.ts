/**
 * Combines a caller's signal, the closing of a client and a time limit into one AbortSignal. Disposing it removes its
 * listeners from signals that live as long as the process.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #parents: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout;
  #passed = false;
  readonly #abort = (): void => this.#controller.abort();

  constructor(limitMs: number, ...parents: readonly (AbortSignal | undefined)[]) {
    this.#parents = parents.filter((parent) => parent !== undefined);
    for (const parent of this.#parents) {
      if (parent.aborted) this.#controller.abort();
      else parent.addEventListener("abort", this.#abort, { once: true });
    }
    this.#timer = setTimeout(() => {
      this.#passed = true;
      this.#controller.abort();
    }, limitMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time limit, and not a caller, ended it. */
  get passed(): boolean {
    return this.#passed;
  }

  /** The value of the promise, or a rejection once the deadline ends. A later value goes to `discard`. */
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

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const parent of this.#parents) parent.removeEventListener("abort", this.#abort);
  }
}
