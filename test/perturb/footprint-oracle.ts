/**
 * What a footprint of a story wants of nodes, worked out a second time from what the API server had, without a line of the
 * product's own code; and the objects of these stories.
 */
import { type KubeObject, type Node, nodes, type Pod, pods, type ReplicaSet, replicaSets } from "@berth/kube";
import { type NodeFootprint, nodeFootprints, type WorkerPool, workerPools } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import { ofKind } from "./worlds.ts";

/** What the API server had at one moment, the sentinel apart. */
export interface FootprintView {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly footprints: readonly NodeFootprint[];
  /** Owners whose deletion waits for their pods. */
  readonly pools: readonly WorkerPool[];
  /** What they own. */
  readonly sets: readonly ReplicaSet[];
}

/** A pod on a node. Its label asks for the agent. */
export interface StoryPod {
  /** By its name in the cluster. */
  readonly node: string;
  readonly group: string;
  /** It stays until somebody takes its finalizer off. Default false. */
  readonly lingers?: boolean;
  /** What has made it. Default nobody. */
  readonly set?: ReplicaSet;
}

export const AGENT_LABEL = "example.com/agent";
export const CLAIM_PREFIX = "example.com/claim.";
const NEEDS = { "example.com/needs-agent": "yes" };
const GROUP = "example.com/group";
/** What makes a node one of a story's. */
export const POOL = { "example.com/pool": "story" };
export const SENTINEL_NODE = { "example.com/sentinel": "true" };

export const HOLD = "example.com/hold";
/** Somebody else's, which must stay. */
export const FOREIGN_FINALIZER = "example.com/keep";

/** Of a name with a domain, behind which the API server takes no more. */
const MAX_NAME = 63;

/**
 * Whether the deletion of pools waits for their pods; then pods without a node are asked for as well. `DeleteOwned`: their
 * ReplicaSets are deleted first, and it waits for `HOLD_MS` at most.
 */
export type Owners = boolean | "DeleteOwned";

/** So long that no step lasts it by itself. */
export const HOLD_MS = 60_000;

export function footprintSpec(owners: Owners, places: FootprintPlaces = STORY_PLACES): object {
  const deletion = {
    onDelete: "DeleteOwned",
    ownedResources: [{ group: "apps", version: "v1", resource: "replicasets" }],
    timeout: `${HOLD_MS / 1_000}s`,
  };
  const hold = {
    resource: { group: "ate.dev", version: "v1alpha1", resource: "workerpools" },
    finalizer: HOLD,
    ...(owners === "DeleteOwned" ? deletion : { onDelete: "Wait" }),
  };
  return {
    workloads: [{ podSelector: { matchLabels: NEEDS } }],
    group: { by: "PodLabel", label: GROUP },
    node: {
      label: { key: places.label },
      claims: { annotationPrefix: places.prefix },
      foreign: "Reclaim",
      excludeSelector: { matchLabels: places.leaves },
    },
    release: { delay: places.delay ?? "0s" },
    ...(owners !== false && { hold }),
  };
}

/** Where a footprint writes on nodes. */
export interface MarkPlaces {
  readonly label: string;
  readonly prefix: string;
}

export interface FootprintPlaces extends MarkPlaces {
  /** Nodes with these labels are left alone. */
  readonly leaves: Labels;
  readonly delay?: string;
}

export const STORY_PLACES: FootprintPlaces = {
  label: AGENT_LABEL,
  prefix: CLAIM_PREFIX,
  leaves: SENTINEL_NODE,
};

export function groupLabels(group: string): Labels {
  return { ...NEEDS, [GROUP]: group };
}

export function needingPod(name: string, { node, group, lingers, set }: StoryPod): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: groupLabels(group),
      ...(lingers && { finalizers: ["example.com/ends"] }),
      ...(set && { ownerReferences: [controlledBy("apps/v1", "ReplicaSet", set)] }),
    },
    spec: {
      containers: [{ name: "main", image: "registry.test/app:1" }],
      nodeName: node,
      terminationGracePeriodSeconds: 0,
    },
  };
}

type OwnerReference = NonNullable<NonNullable<KubeObject["metadata"]>["ownerReferences"]>[number];

function controlledBy(apiVersion: string, kind: string, { metadata }: KubeObject): OwnerReference {
  const { name = "", uid = "" } = metadata ?? {};
  return { apiVersion, kind, name, uid, controller: true };
}

/** Its pods are the story's own: nobody makes them of it. */
export function setObject(name: string, pool: WorkerPool): ReplicaSet {
  const labels = groupLabels(pool.metadata?.uid ?? "");
  const owner = controlledBy("ate.dev/v1alpha1", "WorkerPool", pool);
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name, namespace: "default", ownerReferences: [owner] },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
      },
    },
  };
}

export function poolObject(name: string): WorkerPool {
  return {
    apiVersion: "ate.dev/v1alpha1",
    kind: "WorkerPool",
    metadata: { name, namespace: "default", finalizers: [FOREIGN_FINALIZER] },
    spec: { replicas: 0, ateomImage: "registry.test/ateom:1" },
  };
}

export function toFootprintView(entries: readonly HistoryEntry[]): FootprintView {
  return {
    nodes: ofKind(entries, nodes),
    pods: ofKind(entries, pods),
    footprints: ofKind(entries, nodeFootprints),
    pools: ofKind(entries, workerPools),
    sets: ofKind(entries, replicaSets),
  };
}

/** Label and claims, whoever has set them: values by place, as records name it. */
export type Marks = ReadonlyMap<string, string>;

export function marksOf({ metadata }: Node, { label, prefix }: MarkPlaces = STORY_PLACES): Marks {
  const { labels = {}, annotations = {} } = metadata ?? {};
  const claims = Object.entries(annotations).filter(([key]) => key.startsWith(prefix));
  const marks = claims.map(([key, value]): [string, string] => [`annotation/${key}`, value]);
  const standing = labels[label];
  return new Map(standing === undefined ? marks : [...marks, [`label/${label}`, standing]]);
}

/** Those of a node with pods of these groups. */
export function marksFor(groups: readonly string[], { label, prefix }: MarkPlaces = STORY_PLACES): Marks {
  if (groups.length === 0) return new Map();
  const claims = groups.map((group): [string, string] => [`annotation/${prefix}${group}`, ""]);
  return new Map([...claims, [`label/${label}`, "true"]]);
}

/** For comparison, and for people. */
export function textOf(marks: Marks): string {
  return [...marks]
    .map(([place, value]) => `${place}=${value}`)
    .toSorted()
    .join(" ");
}

/** What should stand on this node by its pods. */
export function wantedOn({ metadata }: Node, { pods: all, footprints }: FootprintView): Marks {
  if (footprints.length === 0) return new Map();
  const groups = all
    .filter((pod) => pod.spec?.nodeName === metadata?.name && counts(pod))
    .map((pod) => pod.metadata?.labels?.[GROUP] ?? "");
  return marksFor(groups);
}

/** What the garbage collector takes off when it has orphaned what an object owned. */
export const ORPHAN = "orphan";

/**
 * Is there something that the deletion of the pool waits for? Its pods, with or without a node, what it owns, and the
 * garbage collector while it orphans that.
 */
export function isUsed(pool: WorkerPool, { pods: all, footprints, sets }: FootprintView): boolean {
  const { uid, finalizers = [] } = pool.metadata ?? {};
  const isOurs = (pod: Pod): boolean => pod.metadata?.labels?.[GROUP] === uid;
  // What made it is there, and the pool's no more.
  const livesOn = (pod: Pod): boolean => sets.some((set) => isOwned(pod, set) && !isOwned(set, pool));
  return (
    footprints.length > 0 &&
    (finalizers.includes(ORPHAN) ||
      sets.some((set) => isOwned(set, pool)) ||
      all.some((pod) => counts(pod) && isOurs(pod) && !livesOn(pod)))
  );
}

export function isOwned({ metadata }: KubeObject, owner: KubeObject): boolean {
  return metadata?.ownerReferences?.some(({ uid }) => uid === owner.metadata?.uid) === true;
}

/** Is the time over for which its deletion waits? @param now Milliseconds since the epoch. */
export function isOverdue({ metadata }: WorkerPool, now: number): boolean {
  return Date.parse(metadata?.deletionTimestamp ?? "") + HOLD_MS <= now;
}

export function isHeld({ metadata }: WorkerPool): boolean {
  return metadata?.finalizers?.includes(HOLD) === true;
}

const FINISHED: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

/** One that ends counts until it is gone; one that is finished, or names what no annotation can be called, does not. */
function counts({ metadata, status }: Pod): boolean {
  const { phase = "Pending" } = status ?? {};
  const group = metadata?.labels?.[GROUP] ?? "";
  const room = MAX_NAME - (CLAIM_PREFIX.length - CLAIM_PREFIX.indexOf("/") - 1);
  return group !== "" && group.length <= room && !FINISHED.has(phase);
}

/**
 * Where the cluster is not yet as the footprint wants it by what is there now: one sentence each.
 *
 * @param isLate is the time over for which the deletion of a pool waits? Default it never is.
 */
export function unsettled(
  view: FootprintView,
  isLate: (pool: WorkerPool) => boolean = () => false,
): readonly string[] {
  const say = (what: string, isWrong: boolean): string[] => (isWrong ? [what] : []);
  const wanted = view.nodes.map((node) => wantedOn(node, view));
  const claims = wanted.reduce((sum, { size }) => sum + Math.max(0, size - 1), 0);
  const labelled = view.nodes.filter((node) => marksOf(node).has(`label/${AGENT_LABEL}`)).length;
  const deleted = view.pools.filter(({ metadata }) => metadata?.deletionTimestamp !== undefined);
  const waiting = deleted.filter((pool) => isUsed(pool, view) && !isLate(pool));
  const idle = deleted.filter((pool) => !waiting.includes(pool));
  const living = view.pools.filter((pool) => !deleted.includes(pool));
  return [
    ...[...living, ...waiting].flatMap((pool) => say(`${pool.metadata?.name} is not held`, !isHeld(pool))),
    ...idle.flatMap((pool) => say(`${pool.metadata?.name} is held`, isHeld(pool))),
    ...waiting
      .filter((pool) => !pool.metadata?.finalizers?.includes(ORPHAN))
      .flatMap((pool) =>
        view.sets.flatMap((set) => say(`${set.metadata?.name} is left`, isOwned(set, pool))),
      ),
    ...view.nodes.flatMap((node, at) =>
      say(
        `${node.metadata?.name} has other marks`,
        textOf(marksOf(node)) !== textOf(wanted[at] ?? new Map()),
      ),
    ),
    ...view.footprints.flatMap(({ metadata, status }) => [
      ...say("is not observed", status?.observedGeneration !== metadata?.generation),
      ...say("miscounts labels", status?.nodes?.labelled !== labelled),
      ...say("has nodes pending", status?.nodes?.pending !== 0),
      ...say("miscounts claims", status?.claims !== claims),
      ...say("miscounts holds", (status?.holds ?? []).length !== waiting.length),
    ]),
  ];
}
