/** What the measurements of a hub share: its cluster, cells that the benchmark plays, and Berth in mode management. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crds, foreignKinds } from "@berth/cli";
import { cells, type Workload, type WorkloadDeployment } from "@berth/fleet";
import { type KubeClient, namespaces, secrets } from "@berth/kube";
import { isConditionTrue } from "@berth/runtime";
import { eventually, type TestCluster } from "@berth/testcluster";
import { HOME } from "../packages/fleet/src/testing/cell-actor.ts";
import { installCrds } from "../packages/fleet/src/testing/fixture-crds.ts";
import { NAMESPACE } from "./fleet-stage.ts";
import { startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { berthProgram, type MeasuredProcess } from "./process.ts";

/** A cluster, or a part of one, that is a cell. */
export interface CellPlane {
  readonly name: string;
  readonly city: string;
  readonly client: KubeClient;
  /** With a credential of its own. */
  readonly kubeconfig: string;
  /** The namespace whose uid is that of the cell. */
  readonly identityNamespace: string;
}

export interface HubStage extends AsyncDisposable {
  readonly hub: TestCluster;
  /** `bin/berth run` as the hub. Resolves once it is ready; the caller disposes it. */
  startBerth(): Promise<MeasuredProcess & { readonly metricsUrl: string }>;
}

/**
 * @param hub stays the caller's.
 * @param listed kubeconfigs of projects, by their paths. Absent: the hub is the project too.
 */
export async function openHubStage(
  hub: TestCluster,
  listed?: Readonly<Record<string, string>>,
): Promise<HubStage> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-hub-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "config.yaml")];
  await writeFile(kubeconfig, hub.kubeconfig(), { mode: 0o600 });
  const kubeconfigs = Object.keys(listed ?? {}).map((of, at) => ({ path: of, kubeconfig: `project-${at}` }));
  for (const { path: of, kubeconfig: file } of kubeconfigs)
    await writeFile(join(folder, file), listed?.[of] ?? "", { mode: 0o600 });
  const spec = { mode: "management", hub: "self", projects: listed === undefined ? "self" : { kubeconfigs } };
  const fleet = { apiVersion: "berth.dev/v1alpha1", kind: "Fleet", metadata: { name: "bench" }, spec };
  // JSON is YAML.
  await writeFile(config, [fleet, WITHOUT_ADMISSION].map((it) => JSON.stringify(it)).join("\n---\n"));
  await prepare(hub.client);
  await hub.client.create(namespaces, { metadata: { name: NAMESPACE } });
  const any = "127.0.0.1:0";
  const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
  const args = ["--kubeconfig", kubeconfig, "--config", config, "--namespace", HOME, ...bind];
  const disposal = owned.move();
  return {
    hub,
    startBerth: () => startReady(berthProgram(args)),
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** The kinds of the fleet and Berth's namespace. */
export async function prepare(client: KubeClient): Promise<void> {
  await installCrds(client, [...crds(foreignKinds(["fleet"]))]);
  await client.create(namespaces, { metadata: { name: HOME } });
}

/** Creates Secret and Cell. */
export async function addCell({ hub: { client } }: HubStage, plane: CellPlane): Promise<void> {
  const { name, city, identityNamespace, kubeconfig } = plane;
  const secretRef = { name: `berth-cell-${name}` };
  const { metadata } = await plane.client.get(namespaces, { name: identityNamespace });
  const data = { kubeconfig: Buffer.from(kubeconfig).toString("base64") };
  await client.create(secrets, { metadata: { namespace: HOME, ...secretRef }, data });
  const spec = { city, secretRef, uid: metadata?.uid ?? "", identityNamespace };
  await client.create(cells, { metadata: { name }, spec });
}

/** Resolves once as many Cells as this are heard. */
export async function waitForCells(
  { hub }: HubStage,
  count: number,
  timeoutMs: number,
  berth: MeasuredProcess,
): Promise<void> {
  await eventually(
    async () => {
      berth.ended.throwIfAborted();
      const { items } = await hub.client.list(cells, { resourceVersion: "0" });
      const heard = items.filter(({ status }) => isConditionTrue(status?.conditions, "Reachable")).length;
      if (heard < count) throw new Error(`${heard} of ${count} cells are heard\n${berth.log}`);
    },
    { timeoutMs, everyMs: 100 },
  );
}

export function readyOf({ status }: Workload | WorkloadDeployment): number {
  return status?.readyReplicas ?? 0;
}
