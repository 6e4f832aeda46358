/** The chart on a cluster: installed by helm, run under its account, uninstalled without a trace. */
import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { readYaml } from "@berth/host";
import {
  customResourceDefinitions,
  type Deployment,
  deployments,
  type Job,
  type KubeObject,
  mutatingAdmissionPolicies,
  namespaces,
  nodes,
  pods,
  secrets,
  serviceAccounts,
} from "@berth/kube";
import { labelRules, startupGates } from "@berth/placement";
import { aNode, readAllObjects, startTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { helmFolder } from "../scripts/chart/helm.ts";
import { patiently } from "./patience.ts";
import { startBerthProcess } from "./product.ts";

const run = promisify(execFile);
const CHART = join(import.meta.dirname, "../charts/berth");
const NAMESPACE = "berth-system";
const TAINT = "example.com/starting";

it("is installed, labels a node, is upgraded, holds a node, and is uninstalled without a trace", async () => {
  await using cluster = await startTestCluster({
    with: ["controller-manager", "scheduler", "kwok"],
    audit: true,
  });
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-chart-"));
  const { client } = cluster;
  const kubeconfigOf = async (name: string, choice = {}): Promise<string> => {
    const file = join(folder.path, name);
    await writeFile(file, cluster.kubeconfig(choice));
    return file;
  };
  const admin = await kubeconfigOf("admin");
  const call = async (tool: string, ...args: readonly string[]): Promise<string> => {
    const env = { ...process.env, KUBECONFIG: admin, HOME: folder.path };
    return (await run(join(helmFolder(), tool), args, { env, cwd: folder.path })).stdout;
  };
  /** The environment of a pod of this account. */
  const podOf = async (account: string): Promise<Readonly<Record<string, string>>> => {
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
    const of = { subresource: "token", name: account, namespace: NAMESPACE };
    const { status } = (await client.create(serviceAccounts, request, of)) as {
      readonly status?: { readonly token?: string };
    };
    const user = { name: account, groups: [], token: status?.token ?? "" };
    return { KUBECONFIG: await kubeconfigOf(account, { user }), POD_NAME: "berth-0" };
  };

  await client.create(namespaces, {
    metadata: { name: NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
  });
  await client.create(nodes, aNode("n1").fake().build());
  // The controllers of Kubernetes label a new node, and take their taint off when kwok has made it ready.
  await patiently(async () => {
    const { metadata, spec } = await client.get(nodes, { name: "n1" });
    expect([spec?.taints, metadata?.labels?.["beta.kubernetes.io/arch"]]).toEqual([undefined, "amd64"]);
  });
  const before = await settledObjects();
  const mark = await cluster.audit.mark();
  const startedAt = performance.now();
  await call("helm", "install", "berth", CHART, "--namespace", NAMESPACE);
  const deployed = await patiently(async () => {
    const found = await client.get(deployments, { namespace: NAMESPACE, name: "berth" });
    expect(found.status?.readyReplicas).toBe(2);
    return found;
  });
  {
    await using berth = startBerthProcess({
      args: argsOf(deployed, folder.path),
      environment: await podOf("berth"),
    });
    await client.create(labelRules, {
      metadata: { name: "hello" },
      spec: { match: {}, labels: [{ key: "example.com/berth", value: "hello" }] },
    } as KubeObject);
    await patiently(async () => {
      const { metadata } = await client.get(nodes, { name: "n1" });
      expect(metadata?.labels).toMatchObject({ "example.com/berth": "hello" });
    });
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await upgradeInTurns();
    await client.create(startupGates, {
      metadata: { name: "starting" },
      spec: {
        taint: { key: TAINT },
        signals: { pods: [{ podSelector: { matchLabels: { a: "b" } } }] },
        adopt: "Always",
      },
    } as KubeObject);
    await patiently(async () => {
      expect((await client.list(mutatingAdmissionPolicies)).items).not.toEqual([]);
      await client.delete(nodes, { name: "n2" }).catch(() => undefined);
      await client.create(nodes, aNode("n2").fake().build());
      expect((await client.get(nodes, { name: "n2" })).spec?.taints).toMatchObject([{ key: TAINT }]);
    });
    expect(berth.output).not.toMatch(/forbidden|\b403\b/);
  }

  // kwok plays the pod of the hook, so its program runs here: with its arguments, under its account.
  const hooks = (await call("helm", "get", "hooks", "berth", "--namespace", NAMESPACE)).replaceAll("\r", "");
  await writeFile(join(folder.path, "hooks.yaml"), hooks);
  const { documents } = readYaml(hooks);
  const job = documents.map(({ value }) => value as Job).find(({ kind }) => kind === "Job");
  await call("kubectl", "apply", "-f", "hooks.yaml");
  const { args = [] } = job?.spec?.template.spec?.containers[0] ?? {};
  const { stdout } = await run(join(import.meta.dirname, "../bin/berth"), args, {
    env: { ...process.env, ...(await podOf("berth-cleanup")) },
  });
  expect(stdout).toContain("- label/example.com/berth=hello");
  expect(stdout).toContain(TAINT);
  expect(
    (await client.list(pods, { namespace: NAMESPACE, labelSelector: "app.kubernetes.io/name=berth" })).items,
  ).toEqual([]);
  await call("helm", "uninstall", "berth", "--namespace", NAMESPACE);
  const crds = (await client.list(customResourceDefinitions)).items.map(({ spec }) => spec.names.kind);
  expect(crds.toSorted()).toEqual([
    "ArchitecturePolicy",
    "DeschedulePolicy",
    "LabelRule",
    "NodeFootprint",
    "StartupGate",
  ]);
  const refused = await cluster.audit.entriesSince(mark, { code: 403 });
  expect(refused.filter(({ user }) => user.startsWith(`system:serviceaccount:${NAMESPACE}:`))).toEqual([]);

  await client.delete(labelRules, { name: "hello" });
  await client.delete(startupGates, { name: "starting" });
  for (const { metadata } of (await client.list(customResourceDefinitions)).items)
    await client.delete(customResourceDefinitions, { name: metadata?.name ?? "" });
  await client.delete(nodes, { name: "n2" });
  await patiently(async () => expect(await settledObjects()).toEqual(before));

  /** Meanwhile Berth runs. A second installation is refused, and an upgrade that was killed is run again. */
  async function upgradeInTurns(): Promise<void> {
    const own = ["--namespace", NAMESPACE];
    const second = call("helm", "install", "second", CHART, ...own, "--set", "installation=blue");
    await expect(second).rejects.toThrow("has the installation berth already (release berth)");
    const upgrade = ["upgrade", "berth", CHART, ...own, "--set", "replicaCount=3"];
    const killed = new AbortController();
    // Its pods wait for such a node, and helm for its pods.
    const waiting = [...upgrade, "--wait", "--set", "nodeSelector.nowhere=here"];
    const interrupted = run(join(helmFolder(), "helm"), waiting, {
      env: { ...process.env, KUBECONFIG: admin, HOME: folder.path },
      signal: killed.signal,
      killSignal: "SIGKILL",
    });
    const pending = { namespace: NAMESPACE, labelSelector: "owner=helm,status=pending-upgrade" };
    await patiently(async () => expect((await client.list(secrets, pending)).items).toHaveLength(1));
    killed.abort();
    await expect(interrupted).rejects.toThrow("aborted");
    const replicas = (count: number) =>
      patiently(async () => {
        const { status } = await client.get(deployments, { namespace: NAMESPACE, name: "berth" });
        expect(status).toMatchObject({ replicas: count, readyReplicas: count });
      });
    // By the moment of its end, helm still takes the first for running.
    await call("helm", ...upgrade).catch(async (error: unknown) => {
      if (!String(error).includes("another operation")) throw error;
      await call("helm", "rollback", "berth", ...own);
      await call("helm", ...upgrade);
    });
    await replicas(3);
    await call("helm", "rollback", "berth", "1", ...own);
    await replicas(2);
    expect((await client.get(nodes, { name: "n1" })).metadata?.labels).toMatchObject({
      "example.com/berth": "hello",
    });
  }

  async function settledObjects() {
    return readAllObjects(client, {
      ignore: (name) => /^(leases|endpointslices|endpoints)/.test(name) && !name.includes("berth"),
    });
  }
}, 120_000);

/** Of its pods, with a folder and ports of this machine. */
function argsOf({ spec }: Deployment, labels: string): readonly string[] {
  const args = spec?.template.spec?.containers[0]?.args ?? [];
  const here = args.map((it) => it.replace("--label-dir=/labels", `--label-dir=${labels}`));
  const address = "127.0.0.1:0";
  return [...here, "--metrics-bind-address", address, "--health-probe-bind-address", address];
}
