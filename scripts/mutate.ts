/**
 * `make mutate ARGS="FILE|FOLDER …"`: breaks each expression of the named sources, one at a time, and prints what no unit test
 * notices, by file and line, with the score per file and folder. `--changed [COMMIT]` takes the lines that differ from the
 * commit (HEAD, if none is named). Not in CI: a mutant takes about a third of a second.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { changedLines, isSource, type Report, type Same, summaryOf } from "./mutants.ts";
import { root } from "./run-tool.ts";

const tool = join(root, "tools/stryker");
const cache = join(root, ".cache/stryker");
const report = join(cache, "report.json");
const read = (path: string): unknown => JSON.parse(readFileSync(path, "utf8"));

const args = process.argv.slice(2);
const mutate = args[0] === "--changed" ? changedSince(args[1] ?? "HEAD") : args.flatMap(sourcesOf);
if (mutate.length === 0) {
  console.log(
    'mutate: no source to change. Usage: make mutate ARGS="FILE|FOLDER …" or ARGS="--changed COMMIT"',
  );
} else {
  process.exitCode = runStryker(mutate);
  if (process.exitCode === 0) {
    const same = read(join(tool, "same-program.json")) as readonly Same[];
    console.log(summaryOf(read(report) as Report, same).join("\n"));
  }
}

function sourcesOf(arg: string): readonly string[] {
  const path = relative(root, arg);
  const all = statSync(arg).isDirectory() ? globSync(`${path}/**/*.ts`, { cwd: root }) : [path];
  return all.filter(isSource).sort();
}

/** The lines that differ from the commit, and the files that git does not know yet. */
function changedSince(commit: string): readonly string[] {
  const git = (...words: string[]): readonly string[] =>
    execFileSync("git", words, { cwd: root, encoding: "utf8", maxBuffer: 64 << 20 }).split("\n");
  const unknown = git("ls-files", "--others", "--exclude-standard").filter(isSource);
  const diff = git("diff", "--unified=0", "--no-color", "--no-ext-diff", commit);
  return [...unknown, ...changedLines(diff)];
}

/** Resolves with its exit code. Its report is in `report`. */
function runStryker(mutated: readonly string[]): number {
  const options = {
    mutate: mutated,
    testRunner: "vitest",
    plugins: [join(tool, "node_modules/@stryker-mutator/vitest-runner/dist/src/index.js")],
    vitest: { configFile: "tools/stryker/vitest.config.ts" },
    // TypeScript 7 has no API that Stryker could read a tsconfig with: it skips one that is not there.
    tsconfigFile: "tools/stryker/no-tsconfig.json",
    coverageAnalysis: "perTest",
    ignoreStatic: true,
    // Beyond 1.5 times what its tests took. A busy machine must not look like an endless loop.
    timeoutMS: 10_000,
    ignorePatterns: ["bench", "build", "docs"],
    tempDirName: join(cache, "tmp"),
    reporters: ["json", "progress-append-only"],
    jsonReporter: { fileName: report },
    logLevel: "warn",
  };
  mkdirSync(cache, { recursive: true });
  writeFileSync(join(cache, "options.json"), JSON.stringify(options));
  const bin = join(tool, "node_modules/@stryker-mutator/core/bin/stryker.js");
  const words = [bin, "run", join(cache, "options.json")];
  // The seed of a property is in the title of its test, and Stryker finds the tests of a mutant by their titles.
  // Broken code is slower by far, so tests of what a review may cost do not run.
  const env = { BERTH_SEED: "1", BERTH_MUTATES: "1", ...process.env };
  return spawnSync(process.execPath, words, { cwd: root, stdio: "inherit", env }).status ?? 1;
}
