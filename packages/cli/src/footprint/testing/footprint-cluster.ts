/** A cluster that serves footprints, and what tests of them write there again and again. */
import { type AdmissionServerSpec, admissionServerSpec } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  deployments,
  type KubeObject,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  type OwnerReference,
  type PolicyRule,
  pods,
} from "@berth/kube";
import { type NodeFootprint, nodeFootprints, type WorkerPool, workerPools } from "@berth/placement";
import { type Clock, systemClock } from "@berth/runtime";
import { aNode, aPod, findFreePort, type PodBuilder, type TestCluster } from "@berth/testcluster";
import { type RunningBerth, startBerth } from "../../composition.ts";
import { clusterWithKinds, giveRole } from "../../testing/cluster.ts";
import { testFolder } from "../../testing/harness.ts";

export const NAMESPACE = "berth-system";
/** Of a footprint `agent` by a preset that names no label of its own. */
export const LABEL = "footprint.berth.dev/agent";

/** Serves WorkerPools as well. @param namespace is created, for Berth itself. */
export async function footprintCluster(namespace?: string): Promise<TestCluster> {
  const cluster = await clusterWithKinds();
  if (namespace !== undefined) await cluster.client.create(namespaces, { metadata: { name: namespace } });
  return cluster;
}

/** Gives a user rights in all namespaces, by a ClusterRole of this name, until it is disposed. */
export function grant(
  { client }: TestCluster,
  { name, user = name }: { readonly name: string; readonly user?: string },
  ...rules: readonly PolicyRule[]
): Promise<AsyncDisposable> {
  return giveRole(client, { name, user }, rules);
}

export function writeFootprint({ client }: TestCluster, name: string, spec: object): Promise<object> {
  const kind = { apiVersion: "berth.dev/v1alpha1", kind: "NodeFootprint" };
  return client.create(nodeFootprints, { ...kind, metadata: { name }, spec });
}

/** Deletes all that tests write, but namespaces, owners and rights. */
export async function clear({ client }: TestCluster): Promise<void> {
  const scope = { namespace: "default" };
  await client.deleteCollection(nodeFootprints, {});
  await client.deleteCollection(mutatingWebhookConfigurations, {});
  await client.deleteCollection(pods, scope, { gracePeriodSeconds: 0 });
  await client.deleteCollection(daemonSets, scope);
  await client.deleteCollection(deployments, scope);
  await client.deleteCollection(nodes, {});
}

export interface BerthOptions {
  /** Documents of a file. */
  readonly config?: string;
  readonly mode?: AdmissionServerSpec["mode"];
  readonly user?: string;
  readonly clock?: Clock;
}

/** Runs until it is disposed of, by default without admission. */
export async function aBerth(
  cluster: TestCluster,
  { config = "", mode = "Off", user, clock = systemClock }: BerthOptions = {},
): Promise<Pick<RunningBerth, "problems"> & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const port = await findFreePort();
  const url = `https://127.0.0.1:${port}`;
  const spec = admissionServerSpec.parse({ mode, bindAddress: `127.0.0.1:${port}`, url });
  const folder = stack.use(await testFolder({ "berth.yaml": config }));
  const as = user === undefined ? {} : { user: await cluster.user(user, ["system:authenticated"]) };
  const berth = stack.use(
    await startBerth({
      client: stack.use(cluster.connect(as)),
      namespace: NAMESPACE,
      clock,
      // The CRDs are as young as the test: without it a footprint deleted while no Berth runs is not taken for deleted yet.
      crdGraceMs: 0,
      admission: { spec, namespace: NAMESPACE },
      config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }],
    }),
  );
  const owned = stack.move();
  return { problems: () => berth.problems(), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** With a pod `on-<name>` that logs. */
export async function aUsedNode({ client }: TestCluster, name: string): Promise<void> {
  await client.create(nodes, aNode(name).build());
  const pod = aPod(`on-${name}`).labelled({ logs: "yes" }).on(name).build();
  await client.create(pods, pod, { namespace: "default" });
}

/** An agent's DaemonSet, in `default`. */
export function agentOf(nodeSelector: Readonly<Record<string, string>> = {}, name = "agent"): DaemonSet {
  const labels = { app: name };
  const containers = [{ name: "main", image: "registry.test/agent:1" }];
  const spec = { containers, nodeSelector, priorityClassName: "system-node-critical" };
  const metadata = { name, namespace: "default" };
  return { metadata, spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } } };
}

export async function statusOf(
  { client }: TestCluster,
  name = "agent",
): Promise<NonNullable<NodeFootprint["status"]>> {
  return (await client.get(nodeFootprints, { name })).status ?? {};
}

export async function conditionOf(cluster: TestCluster, type: string, name?: string): Promise<unknown> {
  return (await statusOf(cluster, name)).conditions?.find((it) => it.type === type);
}

export function aPool(
  { client }: TestCluster,
  name: string,
  finalizers: readonly string[] = [],
): Promise<WorkerPool> {
  const spec = { replicas: 1, ateomImage: "registry.test/ateom:1", sandboxClass: "gvisor" } as const;
  return client.create(workerPools, { metadata: { name, finalizers }, spec }, { namespace: "default" });
}

/** As the one that controls what carries it. */
export function refTo({ metadata: { name = "", uid = "" } = {} }: KubeObject): OwnerReference {
  return { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name, uid, controller: true };
}

/** All rights in these groups, beside the core group, `apps` and those of Berth's own objects. */
export const allOf = (...more: readonly string[]): PolicyRule => ({
  apiGroups: ["", "apps", "events.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io", ...more],
  resources: ["*"],
  verbs: ["*"],
});

/** A pod of the owner, bound to the node. */
export function podOf(owner: KubeObject, name: string, node?: string): PodBuilder {
  const pod = aPod(name).with((it) => ({
    ...it,
    metadata: { ...it.metadata, ownerReferences: [refTo(owner)] },
  }));
  return node === undefined ? pod : pod.on(node);
}
