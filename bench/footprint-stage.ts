/** What the measurements of node footprints share: a cluster, pools with owners as agent-substrate makes them, pods, Berth. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crds, foreignKinds } from "@berth/cli";
import {
  customResourceDefinitions,
  type Deployment,
  deployments,
  type Node,
  namespaces,
  nodes,
  type ReplicaSet,
  replicaSets,
} from "@berth/kube";
import { originalFootprint, type WorkerPool, workerPools } from "@berth/placement";
import { aNode, aPod, eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { post, startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { berthProgram, type MeasuredProcess } from "./process.ts";
import { openRawSender, type RawRequest, type RawSender } from "./raw-requests.ts";

/** Of all pods and pools. */
export const NAMESPACE = "bench-pools";
/** Pods with it are those that no footprint looks for. */
export const FOREIGN_LABEL = "bench.test/foreign";
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
/** Requests in flight while something is prepared, and while pods of a burst are made. */
const IN_FLIGHT = 32;
/** A kubelet has this long to end a pod; the benchmark plays it. Seconds. */
const GRACE = 30;

/** The footprint of the contract: verified owners, a hold, an agent that is checked. */
export const FOOTPRINT: object = {
  apiVersion: "berth.dev/v1alpha1",
  kind: "NodeFootprint",
  metadata: { name: "atelet" },
  spec: { preset: "agent-substrate/pr-134" },
};

export interface Pool {
  readonly uid: string;
  /** Controls its pods, as the last of the chain. */
  readonly replicaSet: { readonly name: string; readonly uid: string };
}

export interface FootprintStage extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly kubeconfig: string;
  /** 32 connections. */
  readonly raw: RawSender;
  /** All nodes, 9 KB each, none with a mark. */
  readonly names: readonly string[];
  /** `bin/berth run` with these documents. Resolves once it is ready; the caller disposes it. */
  startBerth(documents?: readonly object[]): Promise<MeasuredProcess & { readonly metricsUrl: string }>;
  /** A WorkerPool, its Deployment and the ReplicaSet of that. No controller runs. */
  addPool(name: string): Promise<Pool>;
}

export async function startFootprintStage(
  count: number,
  onProgress: (text: string) => void,
): Promise<FootprintStage> {
  await using owned = new AsyncDisposableStack();
  onProgress(`starting a cluster of ${count} nodes`);
  const cluster = owned.use(await startTestCluster({ audit: true }));
  const { client } = cluster;
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-footprint-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const raw = owned.use(openRawSender(target, { connections: IN_FLIGHT, userAgent: "bench-footprint" }));
  await client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
  for (const crd of crds(foreignKinds(["worker-pools"]))) await client.create(customResourceDefinitions, crd);
  await eventually(() => client.list(workerPools));
  const names = Array.from({ length: count }, (_, index) => `node-${String(index).padStart(5, "0")}`);
  await raw.sendAll(names.map((name) => post("/api/v1/nodes", aNode(name).realistic().build())));
  let files = 0;
  const disposal = owned.move();
  return {
    cluster,
    kubeconfig,
    raw,
    names,
    async startBerth(documents = [FOOTPRINT]) {
      const file = join(folder, `config-${++files}.yaml`);
      // JSON is YAML.
      const all = [...documents, WITHOUT_ADMISSION].map((document) => JSON.stringify(document));
      await writeFile(file, all.join("\n---\n"));
      const any = "127.0.0.1:0";
      const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
      return startReady(berthProgram(["--kubeconfig", kubeconfig, "--config", file, ...bind]));
    },
    addPool: (name) => addPool(cluster, name),
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

async function addPool({ client }: TestCluster, name: string): Promise<Pool> {
  const scope = { namespace: NAMESPACE };
  const pool: WorkerPool = {
    apiVersion: "ate.dev/v1alpha1",
    kind: "WorkerPool",
    metadata: { name },
    spec: { replicas: 1, ateomImage: "registry.test/ateom:1" },
  };
  const { metadata: poolMeta } = await client.create(workerPools, pool, scope);
  const labels = { [originalFootprint.poolLabel]: name };
  const spec = {
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: { containers: [{ name: "ateom", image: "registry.test/ateom:1" }] },
    },
  };
  const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name, uid: poolMeta?.uid ?? "" };
  const deployment: Deployment = {
    metadata: { name: `${name}-deployment`, ownerReferences: [{ ...owner, controller: true }] },
    spec,
  };
  const { metadata: made } = await client.create(deployments, deployment, scope);
  const above = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name: `${name}-deployment`,
    uid: made?.uid ?? "",
    controller: true,
  };
  const set: ReplicaSet = { metadata: { name: `${name}-set`, ownerReferences: [above] }, spec };
  const { metadata: setMeta } = await client.create(replicaSets, set, scope);
  return {
    uid: poolMeta?.uid ?? "",
    replicaSet: { name: `${name}-set`, uid: setMeta?.uid ?? "" },
  };
}

/** The one whose turn it is. @throws when there is none at all. */
export function turnOf<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error("nobody's turn");
  return item;
}

/** @param node bound to it as it is made; else it waits for `bind`. */
export function create(name: string, pool: Pool, node?: string): RawRequest {
  const pod = aPod(name)
    .in(NAMESPACE)
    .labelled({ [originalFootprint.podLabel]: pool.uid })
    .ownedBy("ReplicaSet", pool.replicaSet.name, pool.replicaSet.uid);
  return post(PODS, (node === undefined ? pod : pod.on(node)).build());
}

/** A pod that no footprint looks for; it waits for `bind`. */
export function createForeign(name: string): RawRequest {
  return post(
    PODS,
    aPod(name)
      .in(NAMESPACE)
      .labelled({ [FOREIGN_LABEL]: "true" })
      .build(),
  );
}

/** As the scheduler does. */
export function bind(name: string, node: string): RawRequest {
  const target = { apiVersion: "v1", kind: "Node", name: node };
  return post(`${PODS}/${name}/binding`, {
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name, namespace: NAMESPACE },
    target,
  });
}

/** As the kubelet does, of all but the reason why. */
export function report(name: string, phase: "Pending" | "Running", ready: boolean): RawRequest {
  const lastTransitionTime = new Date().toISOString();
  const status = ready ? "True" : "False";
  const conditions = ["Ready", "ContainersReady"].map((type) => ({ type, status, lastTransitionTime }));
  return { method: "PATCH", path: `${PODS}/${name}/status`, body: { status: { phase, conditions } } };
}

/** The pod is told to end, and stays until it has. */
export function end(name: string): RawRequest {
  return { method: "DELETE", path: `${PODS}/${name}`, body: { gracePeriodSeconds: GRACE } };
}

/** The pod is gone. */
export function remove(name: string): RawRequest {
  return { method: "DELETE", path: `${PODS}/${name}`, body: { gracePeriodSeconds: 0 } };
}

/** Does the agent run there, for these pools and no others? Without any: is there no mark at all? */
export function isMarkedFor(node: Node, pools: readonly Pool[]): boolean {
  const { key: label, value } = originalFootprint.nodeLabel;
  const { labels = {}, annotations = {} } = node.metadata ?? {};
  const claims = Object.keys(annotations).filter((key) => key.startsWith(originalFootprint.claimPrefix));
  const wanted = pools.map(({ uid }) => `${originalFootprint.claimPrefix}${uid}`);
  const isLabelled = labels[label] === value;
  return isLabelled === pools.length > 0 && claims.toSorted().join() === wanted.toSorted().join();
}

/** Waits until each of these nodes is as `isMarkedFor` says. @throws when that takes more than a minute. */
export async function waitForMarks(
  { cluster }: FootprintStage,
  names: readonly string[],
  pools: readonly Pool[],
  berth: MeasuredProcess,
): Promise<void> {
  await eventually(
    async () => {
      berth.ended.throwIfAborted();
      for (const name of names) {
        const node = await cluster.client.get(nodes, { name });
        if (!isMarkedFor(node, pools)) throw new Error(`${name} is not as it should be\n${berth.log}`);
      }
    },
    { timeoutMs: 60_000 },
  );
}
