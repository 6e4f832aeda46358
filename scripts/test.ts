/** `make test`: runs every test and ends with the line `N passed, N failed`. Arguments go to vitest. */
import { type BuildProgress, findPrograms, findRegistry } from "@berth/testcluster";
import { runTool } from "./run-tool.ts";

/** How often a line tells how far the first build of a binary is. Milliseconds. */
const TELL_EVERY_MS = 15_000;

/** For one build: the caller that waits hears of it now and then. */
function tell(what: string, packagesInAll: number): (progress: BuildProgress) => void {
  let toldAt = Number.NEGATIVE_INFINITY;
  return ({ elapsedMs, packages, current }) => {
    if (elapsedMs - toldAt < TELL_EVERY_MS) return;
    toldAt = elapsedMs;
    const seconds = Math.round(elapsedMs / 1000);
    console.log(
      `building the ${what}, once: ${seconds} s, ${packages} of about ${packagesInAll} packages, ${current}`,
    );
  };
}

// Before any test, as the first builds take minutes and no test should have to wait for them. One after the other, as
// each takes all processors.
await findPrograms(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"], {
  env: process.env,
  onProgress: tell("control plane", 2400),
});
await findRegistry({ env: process.env, onProgress: tell("image registry", 600) });

process.exitCode = await runTool("vitest", [
  "run",
  "--reporter",
  "default",
  "--reporter",
  "./scripts/summary-reporter.ts",
  ...process.argv.slice(2),
]);
