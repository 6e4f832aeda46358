import type { BigIntStats } from "node:fs";
import { lstat, opendir, readlink, stat } from "node:fs/promises";
import { basename, dirname, join, parse, resolve, sep } from "node:path";

/** Bounds of one folder tree. Files beyond them are reported as a problem and make the snapshot incomplete. */
export interface FolderLimits {
  /** Size of one file, bytes. Default 1 MiB: what a ConfigMap can hold. */
  readonly maxFileBytes: number;
  /** Size of all files together, bytes. Default 64 MiB. */
  readonly maxTotalBytes: number;
  /** Entries of the whole tree, folders included. Default 10,000. */
  readonly maxFiles: number;
  /** Folders below the root, one inside the other. Default 8. */
  readonly maxDepth: number;
}

/** Far above any folder of configuration, and far below what would fill the memory. */
export const DEFAULT_FOLDER_LIMITS: FolderLimits = {
  maxFileBytes: 1024 * 1024,
  maxTotalBytes: 64 * 1024 * 1024,
  maxFiles: 10_000,
  maxDepth: 8,
};

/** A path that could not be read, and why, for the user. `path` is relative to the root, `""` for the root. */
export interface FolderProblem {
  readonly path: string;
  readonly problem: string;
}

/** A file that is there and could be opened: where, and which version of it. */
export interface ScannedFile {
  readonly path: string;
  readonly absolute: string;
  readonly sizeBytes: number;
  /** When content or metadata last changed, ms since the epoch by the file system's clock. */
  readonly changedMs: number;
  /** Equal for the same version of the same file: device, inode, size and both times in nanoseconds. */
  readonly fingerprint: string;
}

/** A folder in which a change matters. `only`: just changes of this entry of it. */
export interface WatchedFolder {
  /** Device and inode: a folder made again under the same name is another folder. */
  readonly identity: string;
  readonly only?: string;
}

export interface FolderScan {
  readonly root: "read" | "missing" | "unreadable";
  /** False when the scan could not see entries that may exist. */
  readonly complete: boolean;
  readonly files: ReadonlyMap<string, ScannedFile>;
  /** By path: files that are there and cannot be opened. */
  readonly badFiles: ReadonlyMap<string, string>;
  /** Problems of the root and of folders. */
  readonly problems: readonly FolderProblem[];
  /** By absolute path: the folders to watch so that the next change of anything here is noticed. */
  readonly watched: ReadonlyMap<string, WatchedFolder>;
}

export interface ScanOptions {
  readonly limits: FolderLimits;
  /** Selects the files (by relative path) that belong to the tree; other files are not opened. */
  readonly include: (path: string) => boolean;
}

interface Walk extends ScanOptions {
  readonly files: Map<string, ScannedFile>;
  readonly badFiles: Map<string, string>;
  readonly problems: FolderProblem[];
  readonly watched: Map<string, WatchedFolder>;
  /** Parts of link targets already checked, so that all links of a ConfigMap share one check. */
  readonly seenLinkParts: Set<string>;
  entries: number;
  totalBytes: number;
  complete: boolean;
}

interface Folder {
  readonly path: string;
  readonly absolute: string;
  readonly depth: number;
  /** Identities from the root down to this folder: a folder among its own ancestors is a cycle. */
  readonly lineage: readonly string[];
}

/**
 * Examines every file of a tree (or one file) without opening any. Skips entries whose name begins with `..`: they are
 * the bookkeeping of ConfigMap volumes. Follows links to files and folders, and refuses links back to a folder above.
 * Never rejects: failures are in the result.
 */
export async function scanFolder(path: string, options: ScanOptions): Promise<FolderScan> {
  const absolute = resolve(path);
  const walk: Walk = {
    ...options,
    files: new Map(),
    badFiles: new Map(),
    problems: [],
    watched: new Map(),
    seenLinkParts: new Set(),
    entries: 0,
    totalBytes: 0,
    complete: true,
  };
  await watchWayTo(walk, absolute);
  const root = await scanRoot(walk, absolute);
  return {
    root,
    complete: root === "read" && walk.complete,
    files: walk.files,
    badFiles: walk.badFiles,
    problems: walk.problems,
    watched: walk.watched,
  };
}

async function scanRoot(walk: Walk, absolute: string): Promise<FolderScan["root"]> {
  try {
    const found = await stat(absolute, { bigint: true });
    if (!found.isDirectory()) {
      addFile(walk, basename(absolute), absolute, found);
      return "read";
    }
    await walkFolder(walk, { path: "", absolute, depth: 0, lineage: [identityOf(found)] });
    return walk.watched.has(absolute) ? "read" : "unreadable";
  } catch (error) {
    walk.problems.push({ path: "", problem: explain(error) });
    return isGone(error) ? "missing" : "unreadable";
  }
}

async function walkFolder(walk: Walk, folder: Folder): Promise<void> {
  let names: readonly { name: string; link: boolean }[];
  try {
    names = await namesIn(walk, folder);
  } catch (error) {
    // A missing root is reported. A folder that vanishes was removed, and that is no problem.
    if (folder.depth === 0) throw error;
    if (!isGone(error)) refuse(walk, folder.path, explain(error));
    return;
  }
  walk.watched.set(folder.absolute, { identity: folder.lineage.at(-1) ?? "" });
  const found = await Promise.all(
    names.map(({ name, link }) => lookAt(walk, join(folder.absolute, name), link)),
  );
  for (const [index, { name }] of names.entries()) {
    const path = folder.path === "" ? name : `${folder.path}/${name}`;
    const result = found[index];
    if (typeof result === "string" && walk.include(path)) addUnknown(walk, path, result);
    else if (typeof result === "string") continue;
    else if (result?.isDirectory()) await enter(walk, folder, path, result);
    else if (result) addFile(walk, path, join(folder.absolute, name), result);
  }
}

async function enter(walk: Walk, from: Folder, path: string, found: BigIntStats): Promise<void> {
  const identity = identityOf(found);
  if (from.lineage.includes(identity)) {
    walk.problems.push({ path, problem: "links back to a folder above it" });
  } else if (from.depth >= walk.limits.maxDepth) {
    refuse(walk, path, `more than ${walk.limits.maxDepth} folders deep`);
  } else {
    const absolute = join(from.absolute, basename(path));
    await walkFolder(walk, { path, absolute, depth: from.depth + 1, lineage: [...from.lineage, identity] });
  }
}

/** Reads no more names than the limit allows, however large the folder is. */
async function namesIn(walk: Walk, folder: Folder): Promise<{ name: string; link: boolean }[]> {
  const names: { name: string; link: boolean }[] = [];
  for await (const entry of await opendir(folder.absolute)) {
    if (entry.name.startsWith("..")) continue;
    if (walk.entries >= walk.limits.maxFiles) {
      refuse(walk, folder.path, `more than ${walk.limits.maxFiles} entries; the rest is not read`);
      break;
    }
    walk.entries += 1;
    names.push({ name: entry.name, link: entry.isSymbolicLink() });
  }
  return names.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The entry with links followed; a sentence when its type is unknown; `undefined` when it just vanished. */
async function lookAt(
  walk: Walk,
  absolute: string,
  link: boolean,
): Promise<BigIntStats | string | undefined> {
  try {
    if (link) await watchLinks(walk, absolute);
    return await stat(absolute, { bigint: true });
  } catch (error) {
    if (isGone(error)) return link ? "the link leads nowhere" : undefined;
    return explain(error);
  }
}

function addFile(walk: Walk, path: string, absolute: string, found: BigIntStats): void {
  if (!walk.include(path)) return;
  const { maxFileBytes, maxTotalBytes } = walk.limits;
  const sizeBytes = Number(found.size);
  if (!found.isFile()) {
    walk.badFiles.set(path, "not a regular file");
  } else if (sizeBytes > maxFileBytes) {
    walk.badFiles.set(path, `larger than ${maxFileBytes} bytes`);
  } else if (walk.totalBytes + sizeBytes > maxTotalBytes) {
    walk.badFiles.set(path, `all files together are larger than ${maxTotalBytes} bytes`);
  } else {
    walk.totalBytes += sizeBytes;
    const changedMs = Number((found.mtimeNs > found.ctimeNs ? found.mtimeNs : found.ctimeNs) / 1_000_000n);
    const fingerprint = `${identityOf(found)}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
    walk.files.set(path, { path, absolute, sizeBytes, changedMs, fingerprint });
  }
}

/** An unknown entry may be a folder with files in it, so their absence proves nothing. */
function addUnknown(walk: Walk, path: string, problem: string): void {
  walk.complete = false;
  walk.badFiles.set(path, problem);
}

/** Watches the nearest existing ancestor, to notice when the path itself appears or disappears. */
async function watchWayTo(walk: Walk, absolute: string): Promise<void> {
  for (let child = absolute; dirname(child) !== child; child = dirname(child)) {
    const parent = dirname(child);
    try {
      const found = await stat(parent, { bigint: true });
      walk.watched.set(parent, { identity: identityOf(found), only: basename(child) });
      break;
    } catch {
      // Does not exist either: try one level up.
    }
  }
  try {
    if ((await lstat(absolute)).isSymbolicLink()) await watchLinks(walk, absolute);
  } catch {
    // Missing, or a broken link: the scan itself reports it.
  }
}

/** Watches each folder that holds a link on the way from `link` to its target: swapping any of them is a change. */
async function watchLinks(walk: Walk, link: string): Promise<void> {
  const target = resolve(dirname(link), await readlink(link));
  let folder = parse(target).root;
  for (const part of target.slice(folder.length).split(sep)) {
    const step = join(folder, part);
    if (!walk.seenLinkParts.has(step)) {
      walk.seenLinkParts.add(step);
      const isLink = (await lstat(step)).isSymbolicLink();
      if (isLink || step === target) await watchFolderOf(walk, step);
      if (isLink) await watchLinks(walk, step);
    }
    folder = step;
  }
}

async function watchFolderOf(walk: Walk, entry: string): Promise<void> {
  const folder = dirname(entry);
  const known = walk.watched.get(folder);
  if (known !== undefined && known.only === undefined) return;
  walk.watched.set(folder, { identity: identityOf(await stat(folder, { bigint: true })) });
}

function refuse(walk: Walk, path: string, problem: string): void {
  walk.complete = false;
  walk.problems.push({ path, problem });
}

function identityOf(found: BigIntStats): string {
  return `${found.dev}:${found.ino}`;
}

function isGone(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** The system's reason in words, without the absolute path that Node's own message repeats. */
export function explain(error: unknown): string {
  const code = codeOf(error);
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "ENOENT") return "not there";
  if (code === "ENOTDIR") return "a part of its path is not a folder";
  if (code === "ELOOP") return "links lead in a circle";
  return code ?? (error instanceof Error ? error.message : String(error));
}
