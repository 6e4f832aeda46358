/** Every test of the chart once more, with helm 3. `make test` runs them with helm 4. */
import { execFile } from "node:child_process";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { startTestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { helmFolder } from "../../scripts/chart/helm.ts";
import { root, runTool } from "../../scripts/run-tool.ts";

const run = promisify(execFile);
const folder = join(root, ".cache/helm-3");

/** Built on demand from its module, beside the pinned kubectl. */
beforeAll(async () => {
  await mkdir(folder, { recursive: true });
  // As its releases say it: without a cluster, it renders for this version of Kubernetes.
  const kubernetes = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37";
  const build = ["build", "-ldflags", kubernetes, "-o", `${folder}/`, "helm.sh/helm/v3/cmd/helm"];
  await run("go", ["-C", join(root, "tools/helm"), ...build], { env: { ...process.env, CGO_ENABLED: "0" } });
  await rm(join(folder, "kubectl"), { force: true });
  await symlink(join(helmFolder(), "kubectl"), join(folder, "kubectl"));
});

it("is helm 3", async () => {
  const { stdout } = await run(join(folder, "helm"), ["version", "--template", "{{ .Version }}"]);
  expect(stdout).toMatch(/^v3\./);
});

it("renders, installs, upgrades, rolls back and uninstalls the chart", async () => {
  // It does not print the notes of a chart without a cluster.
  await using cluster = await startTestCluster();
  const KUBECONFIG = join(folder, "kubeconfig");
  await writeFile(KUBECONFIG, cluster.kubeconfig(), { mode: 0o600 });
  const tests = ["scripts/chart/", "test/chart.cluster.test.ts"];
  expect(await runTool("vitest", ["run", ...tests], { BERTH_HELM: folder, KUBECONFIG })).toBe(0);
});
