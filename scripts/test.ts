/** `make test`: runs every test and ends with the line `N passed, N failed`. Arguments go to vitest. */
import { findPrograms } from "@berth/testcluster";
import { runTool } from "./run-tool.ts";

/** How often a line tells how far the first build of the control plane is. Milliseconds. */
const TELL_EVERY_MS = 15_000;

// Before any test, as the first build takes minutes and no test should have to wait for it.
let toldAt = Number.NEGATIVE_INFINITY;
await findPrograms(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"], {
  env: process.env,
  onProgress: ({ elapsedMs, packages, current }) => {
    if (elapsedMs - toldAt < TELL_EVERY_MS) return;
    toldAt = elapsedMs;
    const seconds = Math.round(elapsedMs / 1000);
    console.log(
      `building the control plane, once: ${seconds} s, ${packages} of about 2400 packages, ${current}`,
    );
  },
});

process.exitCode = await runTool("vitest", [
  "run",
  "--reporter",
  "default",
  "--reporter",
  "./scripts/summary-reporter.ts",
  ...process.argv.slice(2),
]);
