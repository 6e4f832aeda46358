/**
 * What WorkerPools want of a cluster that runs agent-substrate with its pull request 134, worked out a second time from what
 * the API server had, without a line of the product's own code: Deployments, marks of nodes, and when a pool may go.
 */
import {
  type Container,
  type Deployment,
  deployments,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pods,
  type ReplicaSet,
  replicaSets,
} from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import {
  isOwned,
  type MarkPlaces,
  type Marks,
  marksFor,
  marksOf,
  ORPHAN,
  textOf,
} from "./footprint-oracle.ts";
import { ofKind } from "./worlds.ts";

/** What the API server had at one moment. */
export interface PoolsView {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly pools: readonly WorkerPool[];
  readonly deployments: readonly Deployment[];
  readonly sets: readonly ReplicaSet[];
}

/** Names of the pull request. */
export const PLACES: MarkPlaces = { label: "ate.dev/atelet", prefix: "ate.dev/claim." };
export const POOL_FINALIZER = "ate.dev/release-node-claims";
export const UID_LABEL = "ate.dev/worker-pool-uid";
const POOL_LABEL = "ate.dev/worker-pool";

export function toPoolsView(entries: readonly HistoryEntry[]): PoolsView {
  return {
    nodes: ofKind(entries, nodes),
    pods: ofKind(entries, pods),
    pools: ofKind(entries, workerPools),
    deployments: ofKind(entries, deployments),
    sets: ofKind(entries, replicaSets),
  };
}

/** What a pool decides of its Deployment. */
export interface DeploymentFacts {
  readonly owners: readonly string[];
  readonly replicas: number;
  readonly selector: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly containers: readonly string[];
}

export function factsOf({ metadata, spec }: Deployment): DeploymentFacts {
  const { template, selector, replicas } = spec ?? {};
  const { containers = [], initContainers = [] } = template?.spec ?? {};
  return {
    owners: (metadata?.ownerReferences ?? []).map(ownerText).toSorted(),
    replicas: replicas ?? 0,
    selector: selector?.matchLabels ?? {},
    labels: template?.metadata?.labels ?? {},
    containers: [...initContainers, ...containers].map(containerText),
  };
}

const WAIT: Container = {
  name: "wait-for-atelet",
  image: "busybox:1.36",
  command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
};

export function wantedOf({ metadata, spec }: WorkerPool): DeploymentFacts {
  const { name = "", uid = "" } = metadata ?? {};
  const selector = { [POOL_LABEL]: name };
  const ateom = { name: "ateom", image: spec?.ateomImage ?? "", args: ["--pod-uid=$(POD_UID)"] };
  return {
    owners: [`ate.dev/v1alpha1 WorkerPool ${name} ${uid} controller`],
    replicas: spec?.replicas ?? 0,
    selector,
    labels: { ...selector, [UID_LABEL]: uid },
    containers: [WAIT, ateom].map(containerText),
  };
}

function containerText({ name, image, command = [], args = [] }: Container): string {
  return [name, image, ...command, ...args].join(" ");
}

type OwnerReference = NonNullable<NonNullable<KubeObject["metadata"]>["ownerReferences"]>[number];

function ownerText({ apiVersion, kind, name, uid, controller, blockOwnerDeletion }: OwnerReference): string {
  return `${apiVersion} ${kind} ${name} ${uid}${controller && blockOwnerDeletion ? " controller" : ""}`;
}

export function deploymentOf({ metadata }: WorkerPool, view: PoolsView): Deployment | undefined {
  return view.deployments.find((one) => one.metadata?.name === `${metadata?.name}-deployment`);
}

/** What should stand on this node by its pods. One that was orphaned still runs, and its claim stays with it. */
export function poolMarksOn({ metadata }: Node, { pods: all }: PoolsView): Marks {
  const here = all.filter((pod) => pod.spec?.nodeName === metadata?.name && counts(pod));
  return marksFor([...new Set(here.map(groupOf))], PLACES);
}

const FINISHED: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

function counts(pod: Pod): boolean {
  return groupOf(pod) !== "" && !FINISHED.has(pod.status?.phase ?? "Pending");
}

function groupOf({ metadata }: Pod): string {
  return metadata?.labels?.[UID_LABEL] ?? "";
}

export function isDeleted({ metadata }: KubeObject): boolean {
  return metadata?.deletionTimestamp !== undefined;
}

export function isKept({ metadata }: WorkerPool): boolean {
  return metadata?.finalizers?.includes(POOL_FINALIZER) === true;
}

export function isOrphaning({ metadata }: WorkerPool): boolean {
  return metadata?.finalizers?.includes(ORPHAN) === true;
}

/** What the deletion of a pool waits for: the collector that orphans, its Deployment, and its pods. */
export function waitsFor(pool: WorkerPool, view: PoolsView): readonly string[] {
  const ends = view.pods.filter((pod) => groupOf(pod) === pool.metadata?.uid && counts(pod));
  return [
    ...(isOrphaning(pool) ? ["the garbage collector"] : []),
    ...view.deployments.filter((one) => isOwned(one, pool)).map(nameOf),
    ...ends.filter((pod) => !isOrphan(pod, pool, view)).map(nameOf),
  ];
}

/** Does it live on without the pool? What made it is there, and the pool's no more. */
function isOrphan(pod: Pod, pool: WorkerPool, view: PoolsView): boolean {
  const set = view.sets.find((one) => isOwned(pod, one));
  const deployment = set && view.deployments.find((one) => isOwned(set, one));
  return deployment !== undefined && !isOwned(deployment, pool);
}

function nameOf({ metadata }: KubeObject): string {
  return metadata?.name ?? "";
}

/** Where the cluster is not yet as its pools want it: one sentence each. */
export function unsettledPools(view: PoolsView): readonly string[] {
  return [
    ...view.nodes.flatMap((node) =>
      textOf(marksOf(node, PLACES)) === textOf(poolMarksOn(node, view))
        ? []
        : [`${nameOf(node)} has other marks`],
    ),
    ...view.pools.flatMap((pool) => (isDeleted(pool) ? unsettledEnd(pool, view) : unsettledLife(pool, view))),
  ];
}

function unsettledLife(pool: WorkerPool, view: PoolsView): readonly string[] {
  const deployment = deploymentOf(pool, view);
  const is = JSON.stringify(deployment && factsOf(deployment));
  return [
    ...(isKept(pool) ? [] : [`${nameOf(pool)} is not held`]),
    ...(is === JSON.stringify(wantedOf(pool)) ? [] : [`the Deployment of ${nameOf(pool)} is ${is}`]),
    ...((pool.status?.replicas ?? 0) === (deployment?.status?.replicas ?? 0)
      ? []
      : [`${nameOf(pool)} miscounts its pods`]),
  ];
}

/** Nothing else keeps it. */
function unsettledEnd(pool: WorkerPool, view: PoolsView): readonly string[] {
  if (waitsFor(pool, view).length === 0) return [`${nameOf(pool)} waits for nothing`];
  const left = view.deployments.some((one) => isOwned(one, pool)) && !isOrphaning(pool);
  return left ? [`the Deployment of ${nameOf(pool)} is left`] : [];
}
