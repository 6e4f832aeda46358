/**
 * `make compat`: the story of each capability on each version of Kubernetes, then `test/compat`. Minor versions (`1.35`)
 * and parts of file names (`image`) as arguments choose. Prints the table of the README.
 */
import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { BUNDLED_KUBERNETES, findPrograms } from "@berth/testcluster";
import { root, runTool } from "./run-tool.ts";
import { tellBuild } from "./tell-build.ts";

/** Tests that run the whole product against a real API server and look at the cluster alone. */
const STORIES: Readonly<Record<string, readonly string[]>> = {
  labels: ["test/label-rules.cluster.test.ts", "test/labels-live.cluster.test.ts"],
  "startup gates": ["test/startup-gate-live.cluster.test.ts", "test/startup-gate-admission.cluster.test.ts"],
  architecture: [
    "test/architecture-scheduling.cluster.test.ts",
    "test/architecture-admission.cluster.test.ts",
  ],
  footprint: ["test/footprint-beyond.cluster.test.ts", "test/footprint-pr134.cluster.test.ts"],
  descheduling: ["test/deschedule.cluster.test.ts"],
  fleet: ["test/fleet-single.cluster.test.ts", "test/fleet-cell.cluster.test.ts"],
  installation: ["test/install.cluster.test.ts", "packages/cli/src/rights.cluster.test.ts"],
  chart: ["test/chart.cluster.test.ts"],
};

const ARGUMENTS = process.argv.slice(2);
const chosen = BUNDLED_KUBERNETES.filter((version) => ARGUMENTS.some((it) => version.startsWith(`${it}.`)));
const files = ARGUMENTS.filter((it) => !/^\d+\.\d+$/.test(it));

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

/** @returns for each capability how its story ended. */
async function runStories(version: string): Promise<readonly string[]> {
  const minor = version.replace(/\.\d+$/, "");
  const env = { BERTH_KUBERNETES: minor };
  await findPrograms(["kube-apiserver"], {
    env: { ...process.env, ...env },
    onProgress: tellBuild(`control plane of Kubernetes ${version}`, 2400),
  });
  const output = join(root, `.cache/compat-${minor}.json`);
  const reporters = ["--reporter", "default", "--reporter", "json", `--outputFile.json=${output}`];
  await runTool(
    "vitest",
    ["run", "--project", "cluster", ...reporters, ...Object.values(STORIES).flat()],
    env,
  );
  const { testResults } = JSON.parse(await readFile(output, "utf8")) as Report;
  return Object.values(STORIES).map((story) => {
    const results = testResults.filter(({ name }) => story.includes(relative(root, name)));
    const tests = results.flatMap(({ assertionResults }) => assertionResults);
    const count = (it: string): number => tests.filter(({ status }) => status === it).length;
    const [passed, skipped] = [count("passed"), count("skipped")];
    const needs = skipped > 0 ? `, ${skipped} need a later version` : "";
    const whole = results.length === story.length && results.every(({ status }) => status === "passed");
    return whole && passed > 0 ? `${passed} passed${needs}` : `FAILED: ${passed} of ${tests.length} passed`;
  });
}

const columns: (readonly string[])[] = [["capability", "---", ...Object.keys(STORIES)]];
for (const version of ARGUMENTS.length === 0 ? BUNDLED_KUBERNETES : chosen)
  columns.push([version, "---", ...(await runStories(version))]);
for (const row of columns[0]?.keys() ?? [])
  if (columns.length > 1) console.log(`| ${columns.map((column) => column[row]).join(" | ")} |`);
process.exitCode = columns.flat().some((cell) => cell.startsWith("FAILED")) ? 1 : 0;

if (ARGUMENTS.length === 0 || files.length > 0) {
  const reporters = ["--reporter", "default", "--reporter", "./scripts/summary-reporter.ts"];
  const config = join("test/compat", "vitest.config.ts");
  process.exitCode ||= await runTool("vitest", ["run", "--config", config, ...reporters, ...files]);
}
