/**
 * What a footprint of a story wants of nodes, worked out a second time from what the API server had, without a line of the
 * product's own code; and the objects of these stories.
 */
import { type KubeObject, type Node, nodes, type Pod, pods, type Resource } from "@berth/kube";
import { type NodeFootprint, nodeFootprints, type WorkerPool, workerPools } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";

/** What the API server had at one moment, the sentinel apart. */
export interface FootprintView {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly footprints: readonly NodeFootprint[];
  /** Owners whose deletion waits for their pods. */
  readonly pools: readonly WorkerPool[];
}

/** A pod on a node. Its label asks for the agent. */
export interface StoryPod {
  /** By its name in the cluster. */
  readonly node: string;
  readonly group: string;
  /** It stays until somebody takes its finalizer off. Default false. */
  readonly lingers?: boolean;
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
const LABEL_PLACE = `label/${AGENT_LABEL}`;

/** @param owners whether the deletion of pools waits for their pods; then pods without a node are asked for as well. */
export function footprintSpec(owners: boolean, places: FootprintPlaces = STORY_PLACES): object {
  const hold = {
    resource: { group: "ate.dev", version: "v1alpha1", resource: "workerpools" },
    finalizer: HOLD,
    onDelete: "Wait",
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
    ...(owners && { hold }),
  };
}

export interface FootprintPlaces {
  readonly label: string;
  readonly prefix: string;
  /** Nodes with these labels are left alone. */
  readonly leaves: Labels;
  readonly delay?: string;
}

const STORY_PLACES: FootprintPlaces = { label: AGENT_LABEL, prefix: CLAIM_PREFIX, leaves: SENTINEL_NODE };

export function footprintObject(name: string, spec: object): NodeFootprint {
  return { apiVersion: "berth.dev/v1alpha1", kind: "NodeFootprint", metadata: { name }, spec };
}

export function groupLabels(group: string): Labels {
  return { ...NEEDS, [GROUP]: group };
}

export function needingPod(name: string, { node, group, lingers }: StoryPod): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: groupLabels(group),
      ...(lingers && { finalizers: ["example.com/ends"] }),
    },
    spec: {
      containers: [{ name: "main", image: "registry.test/app:1" }],
      nodeName: node,
      terminationGracePeriodSeconds: 0,
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
  const of = <T extends KubeObject>(resource: Resource<T>): readonly T[] =>
    entries.filter((entry) => entry.resource === resource).map(({ object }) => object as T);
  return { nodes: of(nodes), pods: of(pods), footprints: of(nodeFootprints), pools: of(workerPools) };
}

/** Label and claims that stand, whoever has set them: values by place, as records name it. */
export function marksOf({ metadata }: Node): ReadonlyMap<string, string> {
  const { labels = {}, annotations = {} } = metadata ?? {};
  const claims = Object.entries(annotations).filter(([key]) => key.startsWith(CLAIM_PREFIX));
  const marks = claims.map(([key, value]): [string, string] => [`annotation/${key}`, value]);
  const label = labels[AGENT_LABEL];
  return new Map(label === undefined ? marks : [...marks, [LABEL_PLACE, label]]);
}

/** What should stand on this node by its pods. */
export function wantedOn(
  { metadata }: Node,
  { pods: all, footprints }: FootprintView,
): ReadonlyMap<string, string> {
  if (footprints.length === 0) return new Map();
  const groups = all
    .filter((pod) => pod.spec?.nodeName === metadata?.name && counts(pod))
    .map((pod) => pod.metadata?.labels?.[GROUP] ?? "");
  if (groups.length === 0) return new Map();
  const claims = groups.map((group): [string, string] => [`annotation/${CLAIM_PREFIX}${group}`, ""]);
  return new Map([...claims, [LABEL_PLACE, "true"]]);
}

/** Does the pool have pods that its deletion waits for, with or without a node? */
export function isUsed({ metadata }: WorkerPool, { pods: all, footprints }: FootprintView): boolean {
  const isOurs = (pod: Pod): boolean => pod.metadata?.labels?.[GROUP] === metadata?.uid;
  return footprints.length > 0 && all.some((pod) => counts(pod) && isOurs(pod));
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

/** Where the cluster is not yet as the footprint wants it by what is there now: one sentence each. */
export function unsettled(view: FootprintView): readonly string[] {
  const say = (what: string, isWrong: boolean): string[] => (isWrong ? [what] : []);
  const wanted = view.nodes.map((node) => wantedOn(node, view));
  const claims = wanted.reduce((sum, { size }) => sum + Math.max(0, size - 1), 0);
  const labelled = view.nodes.filter((node) => marksOf(node).has(LABEL_PLACE)).length;
  const deleted = view.pools.filter(({ metadata }) => metadata?.deletionTimestamp !== undefined);
  const waiting = deleted.filter((pool) => isUsed(pool, view));
  const idle = deleted.filter((pool) => !isUsed(pool, view));
  const living = view.pools.filter((pool) => !deleted.includes(pool));
  return [
    ...[...living, ...waiting].flatMap((pool) => say(`${pool.metadata?.name} is not held`, !isHeld(pool))),
    ...idle.flatMap((pool) => say(`${pool.metadata?.name} is held`, isHeld(pool))),
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

function textOf(marks: ReadonlyMap<string, string>): string {
  return [...marks]
    .map(([place, value]) => `${place}=${value}`)
    .toSorted()
    .join(" ");
}
