/** What the measurements of startup gates share: a cluster of their own, nodes behind a gate, pods that open it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DaemonSet, daemonSets, namespaces, nodes, pods } from "@berth/kube";
import { originalGate } from "@berth/placement";
import { aNode, aPod, eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { berthProgram, type MeasuredProcess, type Program, startProgram } from "./process.ts";
import { openRawSender, type RawRequest, type RawSender } from "./raw-requests.ts";

/** As kubectl writes it. */
export const TAINT: string = `${originalGate.taint.key}=${originalGate.taint.value}:${originalGate.taint.effect}`;
/** Berth's own namespace, for the certificates of its webhook. */
const NAMESPACE = "berth-system";
/** Owns the pods that open the gate. No controller runs: the benchmark makes the pods itself. */
const AGENT = { namespace: "kube-system", name: "node-setup" };
/** Requests in flight while something is prepared, and while pods become ready. */
const IN_FLIGHT = 32;

/** A gate with the signal of the contract, which opens as soon as the pod on the node is ready. */
export function gateDocument(spec: object = {}): object {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "StartupGate",
    metadata: { name: "bench" },
    spec: { signals: { pods: [{}] }, stableFor: "0s", ...spec },
  };
}

export function admissionDocument(spec: object): object {
  return { apiVersion: "berth.dev/v1alpha1", kind: "AdmissionServer", metadata: { name: "bench" }, spec };
}

/** New nodes have the taint already: nothing has to put it there. */
export const WITHOUT_ADMISSION: object = admissionDocument({ mode: "Off" });

export interface GateStage extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** 32 connections. */
  readonly raw: RawSender;
  /** `bin/berth run` with these documents as its configuration. */
  berth(documents: readonly object[], args?: readonly string[]): Promise<Program>;
  /** Creates nodes of 9 KB that are held by the gate. */
  addHeldNodes(names: readonly string[]): Promise<void>;
  /** Creates the pod that opens the gate on each of these nodes: its containers run and are not ready. */
  addAgents(names: readonly string[]): Promise<void>;
  /** Deletes all nodes, and the pods that `addAgents` has made. */
  clear(): Promise<void>;
}

export async function startGateStage(onProgress: (text: string) => void): Promise<GateStage> {
  await using owned = new AsyncDisposableStack();
  onProgress("starting a cluster");
  const cluster = owned.use(await startTestCluster({ audit: true }));
  const { client } = cluster;
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-gates-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const raw = owned.use(openRawSender(target, { connections: IN_FLIGHT, userAgent: "bench-gates" }));
  await client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
  const { metadata } = await client.create(daemonSets, agentSet());
  const uid = metadata?.uid ?? "";
  let files = 0;
  const disposal = owned.move();
  return {
    cluster,
    raw,
    async berth(documents, args = []) {
      const file = join(folder, `config-${++files}.yaml`);
      // JSON is YAML.
      await writeFile(file, documents.map((document) => JSON.stringify(document)).join("\n---\n"));
      const any = "127.0.0.1:0";
      const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
      return berthProgram(["--kubeconfig", kubeconfig, "--config", file, ...bind, ...args]);
    },
    async addHeldNodes(names) {
      await raw.sendAll(
        names.map((name) => post("/api/v1/nodes", aNode(name).realistic().tainted(TAINT).build())),
      );
    },
    async addAgents(names) {
      await raw.sendAll(names.map((node) => agentOn(node, uid)));
      await raw.sendAll(names.map((node) => says(node, false)));
    },
    async clear() {
      await client.deleteCollection(nodes, {});
      await client.deleteCollection(
        pods,
        { namespace: AGENT.namespace, labelSelector: "startup.k8s.io/component=init" },
        { gracePeriodSeconds: 0 },
      );
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** Starts a program of `GateStage.berth` and resolves once it says that it is ready. The caller disposes it. */
export async function startReady(
  program: Program,
): Promise<MeasuredProcess & { readonly metricsUrl: string }> {
  await using owned = new AsyncDisposableStack();
  const berth = owned.use(startProgram(program));
  const { health, metrics } = addressesOf(await berth.line('"serving"'));
  await eventually(
    async (signal) => {
      berth.ended.throwIfAborted();
      const answer = await fetch(`${health}/readyz`, { signal });
      if (!answer.ok) throw new Error(`${await answer.text()}\n${berth.log}`);
    },
    { timeoutMs: 60_000 },
  );
  owned.move();
  return Object.assign(berth, { metricsUrl: metrics });
}

function addressesOf(line: string): { readonly health: string; readonly metrics: string } {
  return JSON.parse(line) as { health: string; metrics: string };
}

const PODS = `/api/v1/namespaces/${AGENT.namespace}/pods`;

export function post(path: string, body: object): RawRequest {
  return { method: "POST", path, body };
}

/** The kubelet of the node says how its agent fares. */
export function says(node: string, ready: boolean): RawRequest {
  const at = new Date().toISOString();
  const status = ready ? "True" : "False";
  const main = {
    name: "main",
    ready,
    image: "registry.test/setup:1",
    imageID: "",
    restartCount: 0,
    state: { running: { startedAt: at } },
  };
  const conditions = ["Ready", "ContainersReady"].map((type) => ({ type, status, lastTransitionTime: at }));
  const body = { status: { phase: "Running", conditions, containerStatuses: [main] } };
  return { method: "PATCH", path: `${PODS}/agent-${node}/status`, body };
}

/**
 * The pod that opens the gate on this node. Small, as such pods are: the server then takes the Ready writes of a burst four
 * times as fast as with 11 KB.
 *
 * @param uid of its DaemonSet.
 */
export function agentOn(node: string, uid: string): RawRequest {
  const pod = aPod(`agent-${node}`)
    .in(AGENT.namespace)
    .labelled(originalGate.podLabels)
    .on(node)
    .ofDaemonSet(AGENT.name, uid)
    .tolerating({ operator: "Exists" });
  return post(PODS, pod.build());
}

/** Owns them. */
export function agentSet(): DaemonSet {
  const labels = originalGate.podLabels;
  const containers = [{ name: "main", image: "registry.test/setup:1" }];
  const template = { metadata: { labels }, spec: { tolerations: [{ operator: "Exists" }], containers } };
  const spec = { selector: { matchLabels: labels }, template };
  return { apiVersion: "apps/v1", kind: "DaemonSet", metadata: AGENT, spec };
}
