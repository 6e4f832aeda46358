/** What `cluster.json` in the folder of a detached cluster says: enough to find and to end its processes. */
import { link, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { ComponentName, Program } from "./assets.ts";
import { identify, isRunning, type ProcessIdentity } from "./process-identity.ts";

export interface RecordedComponent extends ProcessIdentity {
  readonly name: ComponentName;
  /** How it was started, so that it can be started in the same way again. */
  readonly program: Program;
  readonly flags: readonly string[];
}

export type ClusterRecord =
  | { readonly version: 1; readonly state: "starting"; readonly starter: ProcessIdentity }
  | {
      readonly version: 1;
      readonly state: "started";
      readonly url: string;
      readonly components: readonly RecordedComponent[];
    };

const FILE = "cluster.json";

/** `undefined` when there is none. @throws Error when there is one that this version cannot read. */
export async function readRecord(dir: string): Promise<ClusterRecord | undefined> {
  const file = path.join(dir, FILE);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
  const record: unknown = parse(text);
  if (!isRecord(record)) throw new Error(`${file} is not a cluster record this version can read`);
  return record;
}

/** Claims the folder for a start by this process; `false` when another process's record is there. */
export async function claim(dir: string): Promise<boolean> {
  const starter = await identify(process.pid);
  if (starter === undefined) throw new Error("cannot tell when this process was started");
  const record: ClusterRecord = { version: 1, state: "starting", starter };
  const claimed = path.join(dir, `${FILE}.${process.pid}`);
  await writeFile(claimed, render(record), { mode: 0o600 });
  try {
    await link(claimed, path.join(dir, FILE)); // whole or not at all, unlike creating and then writing
    return true;
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  } finally {
    await rm(claimed, { force: true });
  }
}

/** Replaces the record in one step. */
export async function writeRecord(dir: string, record: ClusterRecord): Promise<void> {
  const file = path.join(dir, FILE);
  await writeFile(`${file}.new`, render(record), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

export async function removeRecord(dir: string): Promise<void> {
  await rm(path.join(dir, FILE), { force: true });
}

/** The processes of the record that still are the ones it names. */
export async function runningOf<T extends ProcessIdentity>(known: readonly T[]): Promise<readonly T[]> {
  const running = await Promise.all(known.map(isRunning));
  return known.filter((_, index) => running[index]);
}

const render = (record: ClusterRecord): string => `${JSON.stringify(record, null, 2)}\n`;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is ClusterRecord {
  const record = value as Partial<ClusterRecord> | null | undefined;
  return record?.version === 1 && (record.state === "starting" || record.state === "started");
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
