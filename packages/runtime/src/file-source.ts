import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";
import { believe, type Doubts, sameSnapshot } from "./folder-belief.ts";
import { FolderReader, type FolderReaderOptions, type FolderSnapshot } from "./folder-reader.ts";
import { explain, type FolderProblem } from "./folder-scan.ts";
import { type FolderNotifier, FolderWatches, systemNotifier } from "./folder-watches.ts";

/** The folder to watch, and the callbacks. */
export interface FolderWatchOptions extends FolderReaderOptions {
  /** A folder, or one file. Need not exist yet. */
  readonly path: string;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** Receives each snapshot that differs from the previous one, and the first. Errors are reported, not fatal. */
  readonly onChange: (snapshot: FolderSnapshot) => void;
  /** Receives each problem once when it appears, and again only after it was gone. */
  readonly onProblem: (problem: FolderProblem) => void;
  /** Quiet time after the last change before a read, ms. Default 100: one save makes several changes. */
  readonly debounceMs?: number;
  /** The longest delay of a read while changes never pause, ms. Default 1000. */
  readonly maxWaitMs?: number;
  /** Time between scans without a notification, ms. Default 60,000. */
  readonly pollMs?: number;
  /** Time between scans while some folder cannot be watched, ms. Default 5000. */
  readonly blindPollMs?: number;
  /** How long a file that had content must stay empty before the watcher accepts it, ms. Default 1000. */
  readonly settleMs?: number;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Default: inotify. */
  readonly notifier?: FolderNotifier;
}

/**
 * Follows a folder tree (or one file) and delivers whole snapshots of it until `signal` aborts; then it resolves.
 *
 * Guarantees: never rejects; one reader at a time; a snapshot is delivered only when it differs from the last one
 * delivered; a file seen empty in the middle of a save is not delivered; a root that is missing or unreadable is
 * delivered as such and never as an empty folder. It survives the root being moved, removed and made again.
 * Without notifications it goes on by polling, and says so.
 */
export async function watchFolder(options: FolderWatchOptions): Promise<void> {
  const { signal, clock = systemClock } = options;
  using pulse = new Pulse(clock, options.debounceMs ?? 100, options.maxWaitMs ?? 1000);
  using watches = new FolderWatches(options.notifier ?? systemNotifier, () => pulse.beat());
  const reader = new FolderReader(options.path, options);
  const deliver = createDelivery(options, watches);
  while (!signal.aborted) {
    let unseen = false;
    const read = await reader.read((folders) => (unseen = !signal.aborted && watches.sync(folders)));
    if (signal.aborted) break;
    if (unseen) pulse.beat();
    const recheckAfterMs = deliver(read);
    const pollMs = watches.problem === undefined ? (options.pollMs ?? 60_000) : (options.blindPollMs ?? 5000);
    await pulse.next(Math.min(pollMs, recheckAfterMs), signal);
  }
}

/** Compares each reading with the last delivered one. Returns when to read again because of a doubt, ms. */
function createDelivery(
  options: FolderWatchOptions,
  watches: FolderWatches,
): (read: FolderSnapshot) => number {
  const { clock = systemClock, debounceMs = 100, settleMs = 1000 } = options;
  let delivered: FolderSnapshot | undefined;
  /** The last reading whose root could be read. Later readings are compared with it. */
  let known: FolderSnapshot | undefined;
  let doubts: Doubts = new Map();
  let reported = new Set<string>();
  const report = (problems: readonly FolderProblem[]): void => {
    const before = reported;
    reported = new Set(problems.map(({ path, problem }) => `${path}\0${problem}`));
    for (const { path, problem } of problems) {
      if (!before.has(`${path}\0${problem}`)) options.onProblem({ path, problem });
    }
  };
  return (read) => {
    const settle = { emptyMs: settleMs, goneMs: debounceMs };
    const belief = believe({ before: known, read, doubts, nowMs: clock.monotonic(), settle });
    doubts = belief.doubts;
    if (read.root === "read") known = belief.snapshot;
    const blind = watches.problem === undefined ? [] : [{ path: "", problem: watches.problem }];
    report([...belief.snapshot.problems, ...blind]);
    if (delivered === undefined || !sameSnapshot(delivered, belief.snapshot)) {
      delivered = belief.snapshot;
      try {
        options.onChange(delivered);
      } catch (error) {
        options.onProblem({ path: "", problem: `a change could not be taken over: ${explain(error)}` });
      }
    }
    return belief.recheckAfterMs;
  };
}

/** Turns many notifications into one wake-up: after a quiet moment, or when they have gone on for too long. */
class Pulse implements Disposable {
  readonly #clock: Clock;
  readonly #debounceMs: number;
  readonly #maxWaitMs: number;
  #firstMs: number | undefined;
  #timer: Disposable | undefined;
  #due = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock, debounceMs: number, maxWaitMs: number) {
    this.#clock = clock;
    this.#debounceMs = debounceMs;
    this.#maxWaitMs = maxWaitMs;
  }

  beat(): void {
    const nowMs = this.#clock.monotonic();
    this.#firstMs ??= nowMs;
    const delayMs = Math.min(this.#debounceMs, this.#firstMs + this.#maxWaitMs - nowMs);
    this.#timer?.[Symbol.dispose]();
    this.#timer = this.#clock.schedule(delayMs, () => {
      this.#firstMs = undefined;
      this.#due = true;
      this.#wake?.();
    });
  }

  /** Resolves when a wake-up is due (at once if one fell due meanwhile), after `atMostMs`, or on abort. */
  next(atMostMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timeout[Symbol.dispose]();
        signal.removeEventListener("abort", done);
        this.#wake = undefined;
        this.#due = false;
        resolve();
      };
      const timeout = this.#clock.schedule(atMostMs, done);
      this.#wake = done;
      signal.addEventListener("abort", done, { once: true });
      if (this.#due || signal.aborted) done();
    });
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
  }
}
