/** What a run measured, on which machine, as a file that a later run can be compared with. */
import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { type Figure, isMet, withUnit } from "./report.ts";

const root = join(import.meta.dirname, "..");

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly node: string;
  readonly apiserver: string;
}

export interface Result {
  /** RFC 3339. */
  readonly date: string;
  readonly commit: string;
  readonly machine: Machine;
  /** The arguments of the run. */
  readonly args: readonly string[];
  readonly figures: readonly Figure[];
}

export function describeMachine(apiserver: string): Machine {
  const all = cpus();
  return {
    cpu: all[0]?.model ?? "unknown",
    cores: all.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    apiserver,
  };
}

/** The commit, marked when there were changes beside it. `unknown` outside a clone. */
export function describeCommit(): string {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty", "--abbrev=12"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return "unknown";
  }
}

/** Writes it to `bench/results/` and gives the path. */
export async function saveResult(result: Result): Promise<string> {
  const folder = join(root, "bench/results");
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${result.date.replaceAll(":", "").slice(0, 17)}.json`);
  const figures = result.figures.map((figure) => ({ ...figure, met: isMet(figure) ?? null }));
  await writeFile(file, `${JSON.stringify({ ...result, figures }, undefined, 2)}\n`);
  return file;
}

/** @throws when the file cannot be read or holds no result. */
export async function readResult(file: string): Promise<Result> {
  const read: unknown = JSON.parse(await readFile(file, "utf8"));
  if (typeof read !== "object" || read === null || !("figures" in read) || !Array.isArray(read.figures)) {
    throw new Error(`${file} holds no result of make bench`);
  }
  return read as Result;
}

/** Prints both side by side: what was, what is, and the change. Figures of only one run are named last. */
export function compare(before: Result, after: Result): void {
  console.log(`compared with ${before.date} (${before.commit}, ${before.machine.cpu}):`);
  const old = new Map(before.figures.map((figure) => [figure.id, figure]));
  const width = Math.max(0, ...after.figures.map(({ what }) => what.length));
  for (const figure of after.figures) {
    const other = old.get(figure.id);
    if (other === undefined) continue;
    old.delete(figure.id);
    const was = withUnit(other.value, other).padStart(14);
    const is = withUnit(figure.value, figure).padStart(14);
    console.log(`  ${figure.what.padEnd(width)}  ${was} ->${is}  ${change(other.value, figure.value)}`);
  }
  if (old.size > 0) console.log(`  only then: ${[...old.keys()].join(", ")}`);
}

function change(before: number, after: number): string {
  if (before === after) return "same";
  if (before === 0) return "";
  const percent = (after / before - 1) * 100;
  return `${percent > 0 ? "+" : ""}${percent.toFixed(0)} %`;
}
