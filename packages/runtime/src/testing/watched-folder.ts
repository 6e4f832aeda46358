import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { eventually } from "@berth/testcluster";
import { type FolderWatchOptions, watchFolder } from "../file-source.ts";
import type { FolderSnapshot } from "../folder-reader.ts";
import type { FolderProblem } from "../folder-scan.ts";

export interface WatchedFolder extends AsyncDisposable {
  readonly root: string;
  readonly snapshots: FolderSnapshot[];
  readonly problems: FolderProblem[];
  readonly put: (path: string, text: string) => Promise<void>;
}

/** A folder of its own for one test, watched; disposing ends the watch and removes the folder. */
export async function watched(
  options: Partial<FolderWatchOptions> = {},
  prepare: (root: string) => Promise<unknown> = async (root) => mkdir(root),
  target: (root: string) => string = (root) => root,
): Promise<WatchedFolder> {
  const parent = await mkdtemp(join(tmpdir(), "berth-files-"));
  const root = join(parent, "rules");
  await prepare(root);
  const stop = new AbortController();
  const snapshots: FolderSnapshot[] = [];
  const problems: FolderProblem[] = [];
  const done = watchFolder({
    path: target(root),
    debounceMs: 20,
    settleMs: 300,
    signal: stop.signal,
    onChange: (snapshot) => snapshots.push(snapshot),
    onProblem: (problem) => problems.push(problem),
    ...options,
  });
  await until(() => snapshots.length > 0);
  return {
    root,
    snapshots,
    problems,
    put: async (path: string, text: string) => {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
      await rm(parent, { recursive: true, force: true });
    },
  };
}

/** Resolves once it holds. Before each further look, it does what is to be done `meanwhile`. */
export function until(
  met: () => boolean,
  { meanwhile }: { readonly meanwhile?: () => Promise<void> } = {},
): Promise<void> {
  const look = async (): Promise<void> => {
    if (met()) return;
    await meanwhile?.();
    throw new Error("the condition does not hold yet");
  };
  return eventually(look, { timeoutMs: 25_000, everyMs: 5 });
}
