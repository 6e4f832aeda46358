/** `kubectl berth`: the real kubectl finds the program, and what completes it, on the PATH. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { startBerth } from "@berth/cli";
import { admissionServerSpec } from "@berth/host";
import { nodes, validatingWebhookConfigurations } from "@berth/kube";
import { architecturePolicies, startupGates } from "@berth/placement";
import { aNode, eventually, findFreePort, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { clusterWithKinds } from "../packages/cli/src/testing/cluster.ts";
import { helmFolder } from "../scripts/chart/helm.ts";
import { runCommand } from "./command.ts";

const root = join(import.meta.dirname, "..");

async function kubectl(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = "",
) {
  const PATH = [environment["PATH"], join(root, "bin"), process.env["PATH"]].filter(Boolean).join(delimiter);
  const env = { HOME: "/nonexistent", ...environment, PATH };
  const child = spawn(join(helmFolder(), "kubectl"), args, { env });
  child.stdin.end(input);
  const ended = once(child, "close");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [status] = (await ended) as [number];
  return { status, stdout, stderr };
}

it("is a plugin that kubectl lists and runs, with its exit code", async () => {
  expect((await kubectl(["plugin", "list"])).stdout).toContain(join(root, "bin/kubectl-berth"));
  expect((await kubectl(["berth", "explain", "--help"])).stdout).toContain("Usage: kubectl berth explain");
  const { status, stderr } = await kubectl(["berth", "plan", "--label-dir", "bin"]);
  expect([status, stderr]).toEqual([4, expect.stringContaining("berth: no cluster to talk to")]);
});

it("talks to the cluster that kubectl talks to", async () => {
  const cluster = await sharedTestCluster();
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-kubectl-"));
  const KUBECONFIG = join(folder.path, "config");
  await writeFile(KUBECONFIG, cluster.kubeconfig());
  await cluster.client.create(nodes, aNode("seen-by-kubectl").build());
  const { status, stdout } = await kubectl(["berth", "explain", "node", "seen-by-kubectl"], { KUBECONFIG });
  expect([status, stdout]).toEqual([0, expect.stringContaining("seen-by-kubectl")]);
});

it("shows what Berth says of a document that is applied, while it asks about anything else", async () => {
  const cluster = await clusterWithKinds();
  const { client } = cluster;
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-kubectl-"));
  const KUBECONFIG = join(folder.path, "config");
  await writeFile(KUBECONFIG, cluster.kubeconfig());
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  const spec = admissionServerSpec.parse({ bindAddress, url: `https://${bindAddress}` });
  await using berth = await startBerth({ client, admission: { spec } });
  const apply = (kind: string, spec: object, annotations: object = {}) => {
    const document = {
      apiVersion: "berth.dev/v1alpha1",
      kind,
      metadata: { name: "warned", annotations },
      spec,
    };
    return kubectl(["apply", "-f", "-"], { KUBECONFIG }, JSON.stringify(document));
  };
  const configurations = async (): Promise<readonly (string | undefined)[]> =>
    (await client.list(validatingWebhookConfigurations)).items.map(({ metadata }) => metadata?.name);
  const gate = (status: string) => ({
    taint: { key: "warned.example.com/gate" },
    signals: { conditions: [{ type: "A" }, { type: "A", status }] },
  });
  expect(await configurations()).toEqual([]);
  expect((await apply("ArchitecturePolicy", { mode: "Taint" })).stderr).toBe("");
  await eventually(async () => expect(await configurations()).toEqual(["berth-documents"]));
  await eventually(async () =>
    expect(await apply("StartupGate", gate("False"))).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^Warning: GateNeverOpens: spec\.signals: no node can pass the gate: /),
    }),
  );
  const silence = { "berth.dev/silence": "GateNeverOpens" };
  expect((await apply("StartupGate", gate("False"), silence)).stderr).toBe("");
  expect((await apply("StartupGate", gate("True"))).stderr).toBe("");
  await client.delete(architecturePolicies, { name: "warned" });
  await client.delete(startupGates, { name: "warned" });
  await eventually(async () => expect(await configurations()).toEqual([]));
  expect(berth.problems()).toEqual([]);
});

it("is completed by kubectl's own mechanism, files included", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-kubectl-"));
  const script = join(folder.path, "kubectl_complete-berth");
  await writeFile(script, await runCommand("completion", "kubectl"));
  await chmod(script, 0o755);
  const answers = async (...words: readonly string[]): Promise<readonly string[]> =>
    (await kubectl(["__complete", "berth", ...words], { PATH: folder.path })).stdout.trimEnd().split("\n");
  expect(await answers("pl")).toEqual([expect.stringMatching(/^plan\t/), ":4"]);
  expect(await answers("explain", "")).toEqual(expect.arrayContaining(["node", ":4"]));
  expect(await answers("run", "--log-level", "d")).toEqual(["debug", ":4"]);
  expect(await answers("validate", "")).toEqual([":0"]);
});
