/** Rule folders as people and kubelet write them, each with a note of what it holds, for the oracle. */
import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { RuleFiles } from "./oracle.ts";

export interface RuleFolder extends AsyncDisposable {
  /** Absolute. */
  readonly path: string;
  /** What the files say now; what is in the middle of being written counts as written. */
  readonly files: RuleFiles;
}

/** A folder that is edited by hand. */
export interface EditedFolder extends RuleFolder {
  /** Writes in place, as an editor or `echo >` does: the file is cut to nothing first. */
  write(file: string, ...lines: readonly string[]): Promise<void>;
  writeText(file: string, text: string): Promise<void>;
  /** Puts bytes there that are no text. What the file said before stays noted: its label must stay as it is. */
  spoil(file: string): Promise<void>;
  /** A file, or a folder with everything in it. */
  remove(file: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
}

/** @param onChange called after each change of `files`. */
export async function createRuleFolder(onChange: () => void = () => undefined): Promise<EditedFolder> {
  const root = await mkdtemp(path.join(tmpdir(), "berth-rules-"));
  const files = new Map<string, string>();
  const isBelow = (file: string, folder: string): boolean => file === folder || file.startsWith(`${folder}/`);
  const writeText = async (file: string, text: string): Promise<void> => {
    await mkdir(path.dirname(path.join(root, file)), { recursive: true });
    await writeFile(path.join(root, file), text);
    files.set(file, text);
    onChange();
  };
  return {
    path: root,
    files,
    writeText,
    write: (file, ...lines) => writeText(file, lines.map((line) => `${line}\n`).join("")),
    // A character of two bytes, cut in the middle.
    spoil: (file) => writeFile(path.join(root, file), Buffer.from([0x6b, 0xc3])),
    async remove(file) {
      await rm(path.join(root, file), { recursive: true, force: true });
      for (const known of files.keys()) if (isBelow(known, file)) files.delete(known);
      onChange();
    },
    async rename(from, to) {
      await mkdir(path.dirname(path.join(root, to)), { recursive: true });
      await rename(path.join(root, from), path.join(root, to));
      for (const [known, text] of files) {
        if (!isBelow(known, from)) continue;
        files.delete(known);
        files.set(to + known.slice(from.length), text);
      }
      onChange();
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}

/** A folder that kubelet keeps equal to a ConfigMap. */
export interface MountedFolder extends RuleFolder {
  /** The ConfigMap has changed: everything is swapped at one moment. */
  update(files: Readonly<Record<string, string>>): Promise<void>;
}

/**
 * Mounts as kubelet's AtomicWriter does (pkg/volume/util/atomic_writer.go): the files are in a folder with a
 * timestamp for a name, `..data` links to that folder, and each entry of the volume links through `..data`.
 */
export async function mountConfigMap(
  files: Readonly<Record<string, string>>,
  onChange: () => void = () => undefined,
): Promise<MountedFolder> {
  const root = await mkdtemp(path.join(tmpdir(), "berth-volume-"));
  let version = 0;
  let current = new Map<string, string>();
  const update = async (next: Readonly<Record<string, string>>): Promise<void> => {
    version += 1;
    const stamp = `..2026_01_01_00_00_${String(version).padStart(2, "0")}.${version}`;
    for (const [file, text] of Object.entries(next)) {
      await mkdir(path.dirname(path.join(root, stamp, file)), { recursive: true });
      await writeFile(path.join(root, stamp, file), text);
    }
    const data = path.join(root, "..data");
    await symlink(stamp, path.join(root, "..data_tmp"));
    await rename(path.join(root, "..data_tmp"), data);
    const entries = new Set(Object.keys(next).map((file) => file.split("/")[0] ?? ""));
    const present = (await readdir(root)).filter((name) => !name.startsWith(".."));
    for (const name of entries) {
      if (!present.includes(name)) await symlink(path.join("..data", name), path.join(root, name));
    }
    for (const name of present) if (!entries.has(name)) await rm(path.join(root, name));
    for (const name of await readdir(root)) {
      if (name.startsWith("..2") && name !== stamp) await rm(path.join(root, name), { recursive: true });
    }
    current = new Map(Object.entries(next));
    onChange();
  };
  await update(files);
  return {
    path: root,
    get files() {
      return current;
    },
    update,
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}
