/** What a `Manager` starts and stops: servers, informers, controllers. */

/** A component that has started. */
export interface Running {
  /**
   * Settles when the component has stopped after its signal aborted. Settling sooner, or rejecting, is a failure of the
   * component and ends the manager.
   */
  readonly ended: Promise<void>;
  /**
   * Finishes the work in flight and accepts nothing new. The manager calls it before the signal aborts when there is
   * time: on an orderly stop, not after losing the leadership.
   */
  drain?(): Promise<void>;
}

/** What a manager starts and stops: a server, an informer, a controller. */
export interface Component {
  /** Lower case, digits and dashes: it is also the name of its readiness check. */
  readonly name: string;
  /**
   * Resolves once others may rely on it (a server listens, caches are synced); the next components wait for that. After
   * `signal` aborts it soon resolves or rejects.
   */
  start(signal: AbortSignal): Promise<Running>;
  /** Why it cannot work now, in a sentence; `undefined` when it can. Quick: every probe calls it. */
  problem?(): string | undefined;
  /** Information, in a sentence, although it works: `/readyz?verbose` shows it and does not fail. */
  note?(): string | undefined;
}

/** Options of `createLoopComponent`. */
export interface LoopOptions {
  readonly name: string;
  /** Runs until `signal` aborts. */
  run(signal: AbortSignal): Promise<unknown>;
  /** Resolves once others may rely on it; default at once. Not waited for when `run` ends first. */
  whenStarted?(signal: AbortSignal): Promise<unknown>;
  /** As `Component.problem`. */
  problem?(): string | undefined;
  /** As `Component.note`. */
  note?(): string | undefined;
}

/** Makes a component of a loop that runs until its signal aborts: an informer, a watcher of files. */
export function createLoopComponent(loop: LoopOptions): Component {
  return {
    name: loop.name,
    start: async (signal) => {
      const ended = Promise.resolve(loop.run(signal)).then(() => undefined);
      await Promise.race([loop.whenStarted?.(signal), ended]);
      return { ended };
    },
    problem: () => loop.problem?.(),
    note: () => loop.note?.(),
  };
}

/** Options of `createServerComponent`. */
export interface ServerOptions {
  readonly name: string;
  /** Resolves when it listens. */
  start(signal: AbortSignal): Promise<AsyncDisposable>;
  /** As `Component.problem`. */
  problem?(): string | undefined;
}

/** Makes a component of something that is started and disposed of: a server. */
export function createServerComponent(server: ServerOptions): Component {
  return {
    name: server.name,
    start: async (signal) => {
      const started = await server.start(signal);
      return { ended: whenAborted(signal).then(() => started[Symbol.asyncDispose]()) };
    },
    problem: () => server.problem?.(),
  };
}

/** Resolves when `signal` aborts. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
