import type { FolderFile, FolderSnapshot } from "./folder-reader.ts";

/** When each doubtful path was first seen in that state, monotonic ms. */
export type Doubts = ReadonlyMap<string, { readonly state: "empty" | "gone"; readonly sinceMs: number }>;

export interface BeliefInput {
  /** The last accepted snapshot. */
  readonly before: FolderSnapshot | undefined;
  readonly read: FolderSnapshot;
  readonly doubts: Doubts;
  readonly nowMs: number;
  /** How long a file that had content must stay empty, or missing, before the reader accepts it. */
  readonly settle: { readonly emptyMs: number; readonly goneMs: number };
}

export interface Belief {
  readonly snapshot: FolderSnapshot;
  readonly doubts: Doubts;
  /** When the first doubt settles; `Infinity` without doubts. */
  readonly recheckAfterMs: number;
}

/**
 * Many editors and scripts save by truncating and then writing, or by removing and then renaming. A reading in between
 * sees an empty or missing file. Such a file keeps its last text until the state has lasted. A new file may be empty at
 * once, and an empty file may vanish at once, because no content is lost.
 */
export function believe({ before, read, doubts, nowMs, settle }: BeliefInput): Belief {
  const held = new Map<string, FolderFile>();
  const remaining = new Map<string, { state: "empty" | "gone"; sinceMs: number }>();
  let recheckAfterMs = Number.POSITIVE_INFINITY;
  for (const old of read.root === "read" ? (before?.files.values() ?? []) : []) {
    const state = doubtAbout(old, read);
    if (state === undefined) continue;
    const known = doubts.get(old.path);
    const sinceMs = known?.state === state ? known.sinceMs : nowMs;
    const leftMs = sinceMs + (state === "empty" ? settle.emptyMs : settle.goneMs) - nowMs;
    if (leftMs <= 0) continue;
    held.set(old.path, old);
    remaining.set(old.path, { state, sinceMs });
    recheckAfterMs = Math.min(recheckAfterMs, leftMs);
  }
  return { snapshot: held.size === 0 ? read : withFiles(read, held), doubts: remaining, recheckAfterMs };
}

function doubtAbout(old: FolderFile, read: FolderSnapshot): "empty" | "gone" | undefined {
  if (old.text === undefined || old.text === "") return undefined;
  const now = read.files.get(old.path);
  // An incomplete reading already says that absence means nothing.
  if (now === undefined) return read.complete ? "gone" : undefined;
  return now.text === "" ? "empty" : undefined;
}

function withFiles(read: FolderSnapshot, held: ReadonlyMap<string, FolderFile>): FolderSnapshot {
  const files = [...new Map([...read.files, ...held])].sort(([a], [b]) => (a < b ? -1 : 1));
  return { ...read, files: new Map(files) };
}

/** Whether both hold the same content of the same files. Object identity does not matter. */
export function sameSnapshot(a: FolderSnapshot, b: FolderSnapshot): boolean {
  if (a.root !== b.root || a.complete !== b.complete || a.files.size !== b.files.size) return false;
  for (const [path, file] of a.files) {
    const other = b.files.get(path);
    if (other === undefined || other.text !== file.text || other.problem !== file.problem) return false;
  }
  return (
    a.problems.length === b.problems.length &&
    a.problems.every(
      ({ path, problem }, i) => b.problems[i]?.path === path && b.problems[i]?.problem === problem,
    )
  );
}
