/** `make test`: runs every test and ends with the line `N passed, N failed`. Arguments go to vitest. */
import { runTool } from "./run-tool.ts";

process.exitCode = await runTool("vitest", [
  "run",
  "--reporter",
  "default",
  "--reporter",
  "./scripts/summary-reporter.ts",
  ...process.argv.slice(2),
]);
