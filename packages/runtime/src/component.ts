/** What a `Manager` starts and stops: servers, informers, controllers. */

/** A component that has started. */
export interface Running {
  /**
   * Settles when the component has come to rest after its signal aborted. Settling sooner, or rejecting, is a
   * failure of the component and ends the manager.
   */
  readonly ended: Promise<void>;
  /**
   * Finishes what is in flight and takes nothing new. Called before the signal aborts when there is time for it: on
   * an orderly stop, not after losing the leadership.
   */
  drain?(): Promise<void>;
}

/** What a manager starts and stops: a server, an informer, a controller. */
export interface Component {
  /** Lower case, digits and dashes: it is also the name of its readiness check. */
  readonly name: string;
  /**
   * Resolves once others may rely on it (a server listens, caches are synced); the next components wait for that.
   * After `signal` aborted it settles soon, either way.
   */
  start(signal: AbortSignal): Promise<Running>;
  /** Why it cannot do its work just now, in a sentence; `undefined` when it can. Quick: asked by every probe. */
  problem?(): string | undefined;
  /** What is worth knowing though it does its work, in a sentence: `/readyz?verbose` shows it and does not fail. */
  note?(): string | undefined;
}

/** What `createLoopComponent` makes a component of. */
export interface LoopOptions {
  readonly name: string;
  /** Runs until `signal` aborts. */
  run(signal: AbortSignal): Promise<unknown>;
  /** Resolves once others may rely on it; default at once. Not waited for when `run` ends first. */
  whenStarted?(signal: AbortSignal): Promise<unknown>;
  /** As `Component.problem`. */
  problem?(): string | undefined;
}

/** A component out of a loop that runs until its signal aborts: an informer, a watcher of files. */
export function createLoopComponent(loop: LoopOptions): Component {
  return {
    name: loop.name,
    start: async (signal) => {
      const ended = Promise.resolve(loop.run(signal)).then(() => undefined);
      await Promise.race([loop.whenStarted?.(signal), ended]);
      return { ended };
    },
    problem: () => loop.problem?.(),
  };
}

/** What `createServerComponent` makes a component of. */
export interface ServerOptions {
  readonly name: string;
  /** Resolves when it listens. */
  start(signal: AbortSignal): Promise<AsyncDisposable>;
  /** As `Component.problem`. */
  problem?(): string | undefined;
}

/** A component out of something that is started and disposed of: a server. */
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
