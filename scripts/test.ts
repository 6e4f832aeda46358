/** `make test`: runs every test and ends with the line `N passed, N failed`. Arguments go to vitest. */
import { findPrograms, findRegistry } from "@berth/testcluster";
import { runTool } from "./run-tool.ts";
import { tellBuild } from "./tell-build.ts";

// Before any test, as the first builds take minutes and no test should have to wait for them. One after the other, as
// each takes all processors.
await findPrograms(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"], {
  env: process.env,
  onProgress: tellBuild("control plane", 2400),
});
await findRegistry({ env: process.env, onProgress: tellBuild("image registry", 600) });

const reporters = ["--reporter", "default", "--reporter", "./scripts/summary-reporter.ts"];
// Control planes take a third of the processors, and a sixth of that is garbage: they may use memory instead.
process.exitCode = await runTool("vitest", ["run", ...reporters, ...process.argv.slice(2)], { GOGC: "400" });
