/** `make check`: types, lint, format, architecture rules, dead code. Runs all of them and names those that failed. */
import { runTool } from "./run-tool.ts";

const steps: readonly (readonly [string, string, readonly string[]])[] = [
  ["types", "tsc", ["-p", "."]],
  ["lint", "oxlint", ["--type-aware", "--quiet"]],
  ["format", "biome", ["check", "--error-on-warnings"]],
  ["architecture rules", "vitest", ["run", "--project", "architecture", "--reporter", "dot"]],
  ["dead code", "knip", ["--no-progress"]],
];

const failed: string[] = [];
for (const [what, tool, args] of steps) {
  console.log(`check: ${what}`);
  if ((await runTool(tool, args)) !== 0) failed.push(what);
}
console.log(failed.length === 0 ? "check: all good" : `check: failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
