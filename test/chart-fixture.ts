/** A cluster with kwok nodes, helm and kubectl, and what runs in place of the pods of the chart. */
import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { readYaml } from "@berth/host";
import {
  type ClusterRole,
  clusterRoles,
  type Job,
  type KubeClient,
  nodes,
  serviceAccounts,
} from "@berth/kube";
import {
  type AllObjects,
  aNode,
  readAllObjects,
  startTestCluster,
  type TestCluster,
} from "@berth/testcluster";
import { expect } from "vitest";
import { helmFolder } from "../scripts/chart/helm.ts";
import { argumentsOfPod } from "./deployment-pod.ts";
import { patiently } from "./patience.ts";

const run = promisify(execFile);
export const CHART: string = join(import.meta.dirname, "../charts/berth");
export const NAMESPACE = "berth-system";
export const IN_NAMESPACE: readonly string[] = ["--namespace", NAMESPACE];

export interface ChartFixture extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly client: KubeClient;
  /** Of its own, with the kubeconfig of an administrator in `admin`. */
  readonly folder: string;
  /** For helm and kubectl. */
  readonly environment: NodeJS.ProcessEnv;
  readonly call: (tool: "helm" | "kubectl", ...args: readonly string[]) => Promise<string>;
  /** The environment of a pod of this account. */
  readonly podOf: (account: string, pod?: string) => Promise<Readonly<Record<string, string>>>;
  /** kwok plays the pod of the hook, so its program runs here: with its arguments, under its account. */
  /** @param change the rules of its ClusterRole, such as one permission less. */
  readonly runHook: (
    change?: (role: ClusterRole) => ClusterRole["rules"],
  ) => Promise<{ readonly stdout: string; readonly stderr: string }>;
  readonly settledObjects: () => Promise<AllObjects>;
}

/** With one node, n1. */
export async function createChartFixture(): Promise<ChartFixture> {
  await using owned = new AsyncDisposableStack();
  const cluster = owned.use(
    await startTestCluster({ with: ["controller-manager", "scheduler", "kwok"], audit: true }),
  );
  const { path: folder } = owned.use(await mkdtempDisposable(join(tmpdir(), "berth-chart-")));
  const { client } = cluster;
  const kubeconfigOf = async (name: string, choice = {}): Promise<string> => {
    const file = join(folder, name);
    await writeFile(file, cluster.kubeconfig(choice));
    return file;
  };
  const environment = { ...process.env, KUBECONFIG: await kubeconfigOf("admin"), HOME: folder };
  const call: ChartFixture["call"] = async (tool, ...args) =>
    (await run(join(helmFolder(), tool), args, { env: environment, cwd: folder })).stdout;
  const podOf: ChartFixture["podOf"] = async (account, pod = "berth-0") => {
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
    const of = { subresource: "token", name: account, namespace: NAMESPACE };
    const { status } = (await client.create(serviceAccounts, request, of)) as {
      readonly status?: { readonly token?: string };
    };
    const user = { name: account, groups: [], token: status?.token ?? "" };
    return { KUBECONFIG: await kubeconfigOf(`${account}.${pod}`, { user }), POD_NAME: pod };
  };
  await client.create(nodes, aNode("n1").fake().build());
  // The controllers of Kubernetes label a new node, and take their taint off when kwok has made it ready.
  await patiently(async () => {
    const { metadata, spec } = await client.get(nodes, { name: "n1" });
    expect([spec?.taints, metadata?.labels?.["beta.kubernetes.io/arch"]]).toEqual([undefined, "amd64"]);
  });
  const end = owned.move();
  return {
    cluster,
    client,
    folder,
    environment,
    call,
    podOf,
    async runHook(change) {
      const hooks = (await call("helm", "get", "hooks", "berth", ...IN_NAMESPACE)).replaceAll("\r", "");
      await writeFile(join(folder, "hooks.yaml"), hooks);
      const { documents } = readYaml(hooks);
      const job = documents.map(({ value }) => value as Job).find(({ kind }) => kind === "Job");
      await call("kubectl", "apply", "-f", "hooks.yaml");
      if (change !== undefined) {
        const of = { name: "berth-cleanup" };
        const rules = change(await client.get(clusterRoles, of));
        await client.patch(clusterRoles, of, { type: "merge", body: { rules } });
      }
      const args = await argumentsOfPod(job ?? {}, client, join(folder, "hook"));
      const env = { ...process.env, ...(await podOf("berth-cleanup")) };
      return run(join(import.meta.dirname, "../bin/berth"), args, { env });
    },
    settledObjects: () =>
      readAllObjects(client, {
        ignore: (name) => /^(leases|endpointslices|endpoints)/.test(name) && !name.includes("berth"),
      }),
    [Symbol.asyncDispose]: () => end.disposeAsync(),
  };
}
