/** `kubectl berth`: the real kubectl finds the program, and what completes it, on the PATH. */
import { spawnSync } from "node:child_process";
import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { nodes } from "@berth/kube";
import { aNode, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { helmFolder } from "../scripts/chart/helm.ts";
import { runCommand } from "./command.ts";

const root = join(import.meta.dirname, "..");

function kubectl(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const PATH = [environment["PATH"], join(root, "bin"), process.env["PATH"]].filter(Boolean).join(delimiter);
  const env = { HOME: "/nonexistent", ...environment, PATH };
  const { status, stdout, stderr } = spawnSync(join(helmFolder(), "kubectl"), args, {
    env,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

it("is a plugin that kubectl lists and runs, with its exit code", async () => {
  expect(kubectl(["plugin", "list"]).stdout).toContain(join(root, "bin/kubectl-berth"));
  expect(kubectl(["berth", "explain", "--help"]).stdout).toContain("Usage: kubectl berth explain");
  const { status, stderr } = kubectl(["berth", "plan", "--label-dir", "bin"]);
  expect([status, stderr]).toEqual([4, expect.stringContaining("berth: no cluster to talk to")]);
});

it("talks to the cluster that kubectl talks to", async () => {
  const cluster = await sharedTestCluster();
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-kubectl-"));
  const KUBECONFIG = join(folder.path, "config");
  await writeFile(KUBECONFIG, cluster.kubeconfig());
  await cluster.client.create(nodes, aNode("seen-by-kubectl").build());
  const { status, stdout } = kubectl(["berth", "explain", "node", "seen-by-kubectl"], { KUBECONFIG });
  expect([status, stdout]).toEqual([0, expect.stringContaining("seen-by-kubectl")]);
});

it("is completed by kubectl's own mechanism, files included", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-kubectl-"));
  const script = join(folder.path, "kubectl_complete-berth");
  await writeFile(script, await runCommand("completion", "kubectl"));
  await chmod(script, 0o755);
  const answers = (...words: readonly string[]): readonly string[] =>
    kubectl(["__complete", "berth", ...words], { PATH: folder.path })
      .stdout.trimEnd()
      .split("\n");
  expect(answers("pl")).toEqual([expect.stringMatching(/^plan\t/), ":4"]);
  expect(answers("explain", "")).toEqual(expect.arrayContaining(["node", ":4"]));
  expect(answers("run", "--log-level", "d")).toEqual(["debug", ":4"]);
  expect(answers("validate", "")).toEqual([":0"]);
});
