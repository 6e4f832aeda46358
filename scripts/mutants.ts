/** What `make mutate` asks Stryker for, and what it prints of the answer. */
import { dirname } from "node:path";

/** The part of Stryker's JSON report that is read here. It counts lines and columns from 1. */
export interface Report {
  readonly files: Readonly<Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>>;
}
export interface Mutant {
  readonly status: string;
  readonly replacement?: string;
  readonly location: { readonly start: Position; readonly end: Position };
}
interface Position {
  readonly line: number;
  readonly column: number;
}
/** A mutant that means the same program: no test can notice it. `code` is what it replaces, as one line. */
export interface Same {
  readonly file: string;
  readonly code: string;
  readonly replacement: string;
  readonly why: string;
}

export function isSource(path: string): boolean {
  return /^packages\/.*\.ts$/.test(path) && !/\.test\.ts$|\.d\.ts$|\/(testing|generated)\//.test(path);
}

/** The lines that are new in the output of `git diff --unified=0`, as Stryker names them: `file.ts:12-14`. */
export function changedLines(diff: readonly string[]): readonly string[] {
  const ranges: string[] = [];
  let file = "";
  for (const line of diff) {
    file = /^\+\+\+ b\/(.*)$/.exec(line)?.[1] ?? file;
    const hunk = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line);
    const first = Number(hunk?.[1]);
    const lines = Number(hunk?.[2] ?? 1);
    if (hunk !== null && lines > 0 && isSource(file)) ranges.push(`${file}:${first}-${first + lines - 1}`);
  }
  return ranges;
}

/** One line for each mutant that no test notices, and then the score of each file and folder. */
export function summaryOf({ files }: Report, same: readonly Same[]): readonly string[] {
  const survivors: string[] = [];
  const scores = new Map<string, { killed: number; all: number }>();
  for (const [file, { source, mutants }] of Object.entries(files)) {
    for (const mutant of mutants) {
      const { status, replacement = "", location } = mutant;
      const isKilled = /^(Killed|Timeout)$/.test(status);
      // The others are not valid, or would have to be there before the file is read.
      if (!isKilled && !/^(Survived|NoCoverage)$/.test(status)) continue;
      const code = codeAt(source, mutant);
      const isSame = (it: Same): boolean =>
        it.file === file && it.code === code && it.replacement === replacement;
      if (!isKilled && same.some(isSame)) continue;
      for (const name of [file, dirname(file)]) {
        const { killed, all } = scores.get(name) ?? { killed: 0, all: 0 };
        scores.set(name, { killed: killed + (isKilled ? 1 : 0), all: all + 1 });
      }
      const reach = status === "NoCoverage" ? "no test reaches it: " : "";
      const change = `${code} → ${replacement.replaceAll(/\s+/g, " ")}`.slice(0, 160);
      if (!isKilled) survivors.push(`${file}:${location.start.line} ${reach}${change}`);
    }
  }
  const rows = [...scores].sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    ...survivors,
    ...rows.map(([name, { killed, all }]) => {
      const percent = ((100 * killed) / all).toFixed(1);
      return `${percent.padStart(5)} %  ${`${killed} of ${all}`.padStart(12)}  ${name}`;
    }),
  ];
}

function codeAt(source: string, { location: { start, end } }: Mutant): string {
  const lines = source.split("\n").slice(start.line - 1, end.line);
  lines.push((lines.pop() ?? "").slice(0, end.column - 1));
  return lines
    .map((line, at) => (at === 0 ? line.slice(start.column - 1) : line))
    .join(" ")
    .replaceAll(/\s+/g, " ")
    .trim();
}
