import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";
import type { FolderLimits, FolderProblem, FolderScan, ScannedFile, WatchedFolder } from "./folder-scan.ts";
import { DEFAULT_FOLDER_LIMITS, explain, scanFolder } from "./folder-scan.ts";

/** One file: its text, or why it cannot be read. A file with a problem exists; never treat it as removed. */
export type FolderFile =
  | { readonly path: string; readonly text: string; readonly problem?: never }
  | { readonly path: string; readonly text?: never; readonly problem: string };

/** A whole folder tree at one moment: it never mixes old and new files. */
export interface FolderSnapshot {
  /** `missing` and `unreadable` mean that the files are unknown, not that none exist. */
  readonly root: "read" | "missing" | "unreadable";
  /** True when `files` holds every existing file. While false, the absence of a file proves nothing. */
  readonly complete: boolean;
  /** By path relative to the root with `/` between the parts, in order of path. */
  readonly files: ReadonlyMap<string, FolderFile>;
  /** Every entry that could not be read, files with a problem included, in order of path. */
  readonly problems: readonly FolderProblem[];
}

/** The files to read, and the limits. */
export interface FolderReaderOptions {
  /** Default: `DEFAULT_FOLDER_LIMITS`, each limit by itself. */
  readonly limits?: Partial<FolderLimits>;
  /** Which files (relative path) belong to it. Default: all. Hidden files are files. */
  readonly include?: (path: string) => boolean;
  /** Only its wall time is used, to decide whether a file may still change within one tick of its timestamps. */
  readonly clock?: Clock;
}

/** Reads of a tree that changes meanwhile. After the last one the changing files are reported as such. */
const MAX_ATTEMPTS = 5;
/** Files open at one time. */
const PARALLEL_READS = 16;
/**
 * File times advance in ticks (4 ms on ext4, 1-2 s on some network file systems). A read later than this after the last
 * change cannot share a tick with a missed change, so its fingerprint can be trusted.
 */
const TRUSTED_AFTER_MS = 2000;

/**
 * Reads a folder tree, or one file (then `files` holds its base name), once.
 *
 * Guarantees: never rejects; opens regular files only; a tree swapped while it is read (a ConfigMap update) is read
 * again, so old and new content never mix. Text must be UTF-8; a byte order mark is dropped.
 */
export async function readFolder(path: string, options: FolderReaderOptions = {}): Promise<FolderSnapshot> {
  return new FolderReader(path, options).read(() => false);
}

interface KnownFile {
  readonly fingerprint: string;
  readonly trusted: boolean;
  readonly file: FolderFile;
}

/** Reads the same tree again and again, opening only the files that changed. Calls must not overlap. */
export class FolderReader {
  readonly #path: string;
  readonly #limits: FolderLimits;
  readonly #include: (path: string) => boolean;
  readonly #clock: Clock;
  #known = new Map<string, KnownFile>();

  constructor(path: string, options: FolderReaderOptions = {}) {
    this.#path = path;
    this.#limits = { ...DEFAULT_FOLDER_LIMITS, ...options.limits };
    this.#include = options.include ?? (() => true);
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * @param onScan receives the folders to watch. It returns true when it began to watch one: changes made just before
   *   that went unnoticed, so the tree must be scanned once more.
   */
  async read(onScan: (folders: ReadonlyMap<string, WatchedFolder>) => boolean): Promise<FolderSnapshot> {
    let scan = await this.#scan();
    let unseen = onScan(scan.watched);
    for (let attempt = 1; ; attempt++) {
      const opened = await this.#readChanged(scan);
      if (opened === 0 && !unseen) return this.#snapshot(scan, new Set());
      const after = await this.#scan();
      unseen = onScan(after.watched);
      const moved = changedPaths(scan, after);
      if (moved.size === 0 && !unseen) return this.#snapshot(after, moved);
      if (attempt === MAX_ATTEMPTS) return this.#snapshot(after, moved);
      scan = after;
    }
  }

  #scan(): Promise<FolderScan> {
    return scanFolder(this.#path, { limits: this.#limits, include: this.#include });
  }

  /** Returns how many files were opened. Forgets files that are gone. */
  async #readChanged(scan: FolderScan): Promise<number> {
    const kept = new Map<string, KnownFile>();
    const toRead: ScannedFile[] = [];
    for (const file of scan.files.values()) {
      const known = this.#known.get(file.path);
      if (known?.trusted && known.fingerprint === file.fingerprint) kept.set(file.path, known);
      else toRead.push(file);
    }
    this.#known = kept;
    for (let at = 0; at < toRead.length; at += PARALLEL_READS) {
      await Promise.all(toRead.slice(at, at + PARALLEL_READS).map((file) => this.#readOne(file)));
    }
    return toRead.length;
  }

  async #readOne(scanned: ScannedFile): Promise<void> {
    const settled = this.#clock.now() - scanned.changedMs > TRUSTED_AFTER_MS;
    const file = await readText(scanned, this.#limits.maxFileBytes);
    const trusted = settled && file.problem === undefined;
    this.#known.set(scanned.path, { fingerprint: scanned.fingerprint, trusted, file });
  }

  #snapshot(scan: FolderScan, moved: ReadonlySet<string>): FolderSnapshot {
    const files: FolderFile[] = [];
    for (const [path, problem] of scan.badFiles) files.push({ path, problem });
    for (const path of scan.files.keys()) {
      const known = this.#known.get(path);
      const usable = known !== undefined && !moved.has(path);
      files.push(usable ? known.file : { path, problem: "it kept changing while it was read" });
    }
    files.sort(byPath);
    const bad = files.flatMap(({ path, problem }) => (problem === undefined ? [] : [{ path, problem }]));
    return {
      root: scan.root,
      complete: scan.complete,
      files: new Map(files.map((file) => [file.path, file])),
      problems: [...scan.problems, ...bad].sort(byPath),
    };
  }
}

function changedPaths(before: FolderScan, after: FolderScan): Set<string> {
  const changed = new Set<string>();
  for (const path of before.files.keys()) if (!after.files.has(path)) changed.add(path);
  for (const [path, file] of after.files) {
    if (before.files.get(path)?.fingerprint !== file.fingerprint) changed.add(path);
  }
  return changed;
}

async function readText(scanned: ScannedFile, maxBytes: number): Promise<FolderFile> {
  const { path } = scanned;
  try {
    // Without O_NONBLOCK, opening a pipe that took the file's place would wait for a writer for ever.
    await using file = await open(scanned.absolute, constants.O_RDONLY | constants.O_NONBLOCK);
    if (!(await file.stat()).isFile()) return { path, problem: "not a regular file" };
    const bytes = Buffer.alloc(scanned.sizeBytes + 1);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    if (length > maxBytes) return { path, problem: `larger than ${maxBytes} bytes` };
    return { path, text: new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length)) };
  } catch (error) {
    return { path, problem: error instanceof TypeError ? "not UTF-8 text" : explain(error) };
  }
}

function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}
