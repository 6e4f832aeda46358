/** What must never happen to pools, their Deployments and nodes, asked of a whole history. */
import { isDeepStrictEqual } from "node:util";
import { type Deployment, deployments, type KubeObject, type Node, nodes } from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import { type HistoryEntry, NUDGE } from "@berth/testcluster";
import { isOwned, marksOf } from "./footprint-oracle.ts";
import {
  deploymentOf,
  factsOf,
  isDeleted,
  isKept,
  isOrphaning,
  PLACES,
  POOL_FINALIZER,
  type PoolsView,
  poolMarksOn,
  toPoolsView,
  waitsFor,
  wantedOf,
} from "./footprint-pools-oracle.ts";
import { flappingMarks, foreignOfNode, marksProblems } from "./footprint-verdict.ts";
import { Worlds } from "./worlds.ts";

/** One sentence for each thing that must not be. @param steps in order, the start included. */
export function forbiddenOfPools(
  history: readonly HistoryEntry[],
  steps: readonly string[],
): readonly string[] {
  // A first list is never older than its request, so all that is there before the start is seen together.
  const prepared = history.findIndex(({ by, step }) => by !== "story" || step !== steps[0]);
  const worlds = new Worlds(history, steps, toPoolsView, Math.max(prepared, 0));
  return [
    ...flappingMarks(history, PLACES),
    ...madeAgain(history),
    ...idleClaims(history),
    ...history.flatMap((entry) =>
      problemsOf(entry, worlds.behind(entry)).map((problem) => `${entry.name} ${problem} (${entry.step})`),
    ),
  ];
}

function problemsOf(entry: HistoryEntry, views: readonly PoolsView[]): readonly string[] {
  const { type, resource, object, before, by } = entry;
  // The server removes what has no finalizer left: whoever asked for that first, it is the last finalizer that counts.
  if (resource === workerPools && type === "DELETED") return ofEnd(before ?? object, views);
  if (by !== "controller") return [];
  if (resource === deployments) return ofDeployment(entry, views);
  if (type !== "MODIFIED" || before === undefined) return [`was ${type} by the controller`];
  if (resource === workerPools) return ofPool(object, before, views);
  if (resource !== nodes) return [`of ${resource.plural} was written by the controller`];
  const wanted = views.map((view) => poolMarksOn(before as Node, view));
  const isForeign = !isDeepStrictEqual(foreignOfNode(object, PLACES), foreignOfNode(before, PLACES));
  return [
    ...(isForeign ? ["had foreign things touched"] : []),
    ...marksProblems(object, before, { wanted, inForce: true }, PLACES),
  ];
}

/** Its finalizer, and how many pods it has; neither for nothing. */
function ofPool(is: WorkerPool, was: WorkerPool, views: readonly PoolsView[]): readonly string[] {
  const problems: string[] = [];
  if (!isDeepStrictEqual(foreignOfPool(is), foreignOfPool(was))) problems.push("had foreign things touched");
  const [after, before] = [is.status?.replicas ?? 0, was.status?.replicas ?? 0];
  if (after === before && isKept(is) === isKept(was)) problems.push("was written for nothing");
  if (isKept(is) && !isKept(was) && isDeleted(was)) problems.push("was held though it is being deleted");
  if (!isKept(is) && isKept(was))
    problems.push(...(isDeleted(was) ? ofEnd(was, views) : ["was let go though it lives"]));
  const isTold = views.some((view) => (deploymentOf(was, view)?.status?.replicas ?? 0) === after);
  if (after !== before && !isTold) problems.push(`has ${after} pods, which its Deployment never had`);
  if (after !== before && !lives(was, views)) problems.push("was counted though it is being deleted");
  return problems;
}

/** @param pool as it was with its last finalizer. */
function ofEnd(pool: WorkerPool, views: readonly PoolsView[]): readonly string[] {
  if (!isKept(pool)) return [];
  if (views.some((view) => waitsFor(pool, view).length === 0)) return [];
  const [last] = views.map((view) => waitsFor(pool, view)).toReversed();
  return [`was let go though there is ${last?.join(", ")}`];
}

function foreignOfPool({ metadata = {}, spec }: WorkerPool): unknown {
  const { resourceVersion: _v, managedFields: _f, finalizers = [], ...meta } = metadata;
  return { meta, spec, finalizers: finalizers.filter((one) => one !== POOL_FINALIZER) };
}

function lives({ metadata }: KubeObject, views: readonly PoolsView[]): boolean {
  return views.some(({ pools }) =>
    pools.some((pool) => pool.metadata?.uid === metadata?.uid && !isDeleted(pool)),
  );
}

/** It is made of a pool that lives, written when it is not as the pool wants it, and removed with the pool. */
function ofDeployment(
  { type, object, before }: HistoryEntry,
  views: readonly PoolsView[],
): readonly string[] {
  const pools = views.flatMap((view) => view.pools);
  if (type === "DELETED") {
    const gone = before ?? object;
    const isRight = pools.some((pool) => isOwned(gone, pool) && isDeleted(pool) && !isOrphaning(pool));
    return isRight ? [] : ["was removed though no pool of it is being deleted"];
  }
  const facts = factsOf(object);
  const isWanted = pools.some((pool) => !isDeleted(pool) && isDeepStrictEqual(wantedOf(pool), facts));
  const problems = isWanted ? [] : [`is as no pool wants it: ${JSON.stringify(facts)}`];
  if (type === "ADDED" || before === undefined) return problems;
  if (isDeepStrictEqual(factsOf(before), facts)) problems.push("was written at rest");
  if (!isDeepStrictEqual(foreignOfDeployment(object), foreignOfDeployment(before)))
    problems.push("had foreign things touched");
  return problems;
}

function foreignOfDeployment({ metadata, spec, status }: Deployment): unknown {
  const { labels, annotations: { [NUDGE]: _nudge, ...annotations } = {} } = metadata ?? {};
  return { labels, annotations, status, paused: spec?.paused, strategy: spec?.strategy };
}

/** A pool has one Deployment in its life: nothing of these stories removes one alone. */
function madeAgain(history: readonly HistoryEntry[]): readonly string[] {
  const made = new Set<string>();
  return history.flatMap(({ type, resource, object, by, name, step }) => {
    if (type !== "ADDED" || resource !== deployments || by !== "controller") return [];
    return (object.metadata?.ownerReferences ?? []).flatMap(({ uid }) => {
      if (made.has(uid)) return [`${name} was made twice for one pool (${step})`];
      made.add(uid);
      return [];
    });
  });
}

/** What stands on nodes in the end, and no pod is there that it is for. */
function idleClaims(history: readonly HistoryEntry[]): readonly string[] {
  const kept = new Map<string, HistoryEntry>();
  for (const entry of history) {
    const key = `${entry.resource.plural}/${entry.name}`;
    if (entry.type === "DELETED") kept.delete(key);
    else kept.set(key, entry);
  }
  const end = toPoolsView([...kept.values()]);
  return end.nodes.flatMap((node) => {
    const wanted = poolMarksOn(node, end);
    const idle = [...marksOf(node, PLACES).keys()].filter((place) => !wanted.has(place));
    return idle.map((place) => `${node.metadata?.name} has ${place} in the end, and no pod for it`);
  });
}
