import type { FSWatcher } from "node:fs";
import { watch } from "node:fs";
import { explain, type WatchedFolder } from "./folder-scan.ts";

/**
 * Starts to report changes of the entries of one folder, by name where the system gives it. Throws on failure. Default:
 * `fs.watch`, which is inotify on Linux. Replace it for file systems without notifications.
 */
export type FolderNotifier = (
  folder: string,
  onChange: (entry: string | undefined) => void,
  onEnd: () => void,
) => Disposable;

/**
 * Watches folders, never single files. An atomic save or a ConfigMap swap replaces the file, and a watch on the old
 * file then reports nothing more. Does not keep the process alive.
 */
export const systemNotifier: FolderNotifier = (folder, onChange, onEnd) => {
  const watcher: FSWatcher = watch(folder, { persistent: false }, (_event, name) =>
    onChange(name ?? undefined),
  );
  watcher.on("error", onEnd);
  return { [Symbol.dispose]: () => watcher.close() };
};

/** The watches of one tree. `sync` makes them equal to the folders that the last scan asked for. */
export class FolderWatches implements Disposable {
  readonly #notifier: FolderNotifier;
  readonly #onChange: () => void;
  readonly #open = new Map<string, WatchedFolder & { readonly watch: Disposable }>();
  #problem: string | undefined;

  /** @param onChange called for every change, often several times for one; must be cheap. */
  constructor(notifier: FolderNotifier, onChange: () => void) {
    this.#notifier = notifier;
    this.#onChange = onChange;
  }

  /** Why some folder is not watched (the inotify limit), as of the last `sync`. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Returns whether a watch was added: changes in that folder just before were not reported. */
  sync(wanted: ReadonlyMap<string, WatchedFolder>): boolean {
    this.#problem = undefined;
    for (const [folder, watched] of this.#open) {
      const still = wanted.get(folder);
      if (still?.identity !== watched.identity || still.only !== watched.only) this.#close(folder);
    }
    let began = false;
    for (const [folder, watched] of wanted) {
      if (this.#open.has(folder)) continue;
      try {
        this.#begin(folder, watched);
        began = true;
      } catch (error) {
        // The next scan notices a folder that just vanished. A folder that may not be read has its own problem.
        const reason = explain(error);
        if (reason !== "not there" && reason !== "permission denied")
          this.#problem = notWatched(folder, reason);
      }
    }
    return began;
  }

  #begin(folder: string, watched: WatchedFolder): void {
    const { only } = watched;
    const changed = (entry: string | undefined): void => {
      if (only === undefined || entry === undefined || entry === only) this.#onChange();
    };
    const ended = (): void => {
      this.#close(folder);
      this.#onChange();
    };
    this.#open.set(folder, { ...watched, watch: this.#notifier(folder, changed, ended) });
  }

  #close(folder: string): void {
    this.#open.get(folder)?.watch[Symbol.dispose]();
    this.#open.delete(folder);
  }

  [Symbol.dispose](): void {
    for (const folder of this.#open.keys()) this.#close(folder);
  }
}

function notWatched(folder: string, reason: string): string {
  const why =
    reason === "ENOSPC"
      ? "the limit fs.inotify.max_user_watches is reached"
      : reason === "EMFILE"
        ? "the limit fs.inotify.max_user_instances or of open files is reached"
        : reason;
  return `changes in ${folder} are not notified: ${why}`;
}
