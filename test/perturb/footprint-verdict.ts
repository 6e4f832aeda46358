/** What must never happen while footprints are at work, asked of a whole history. */
import { isDeepStrictEqual } from "node:util";
import { type KubeObject, type Node, nodes, type Resource, replicaSets } from "@berth/kube";
import { nodeFootprints, type WorkerPool, workerPools } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import {
  type FootprintView,
  HOLD,
  isHeld,
  isOwned,
  isUsed,
  type MarkPlaces,
  type Marks,
  marksOf,
  ORPHAN,
  STORY_PLACES,
  toFootprintView,
  wantedOn,
} from "./footprint-oracle.ts";
import { recordedOf } from "./gate-oracle.ts";
import { MARKS } from "./node-scene.ts";
import { Worlds } from "./worlds.ts";

/**
 * One sentence for each thing that must not be.
 *
 * @param steps in order, the start included.
 * @param late the step from which on pools are let go that were deleted before it. Default none.
 */
export function forbiddenOfFootprints(
  history: readonly HistoryEntry[],
  steps: readonly string[],
  late?: string,
): readonly string[] {
  // A first list is never older than its request, so all that is there before the start is seen together.
  const prepared = history.findIndex(({ by, step }) => by !== "story" || step !== steps[0]);
  const worlds = new Worlds(history, steps, toFootprintView, Math.max(prepared, 0));
  const written = history.filter(({ by }) => by === "controller");
  const isLate = ({ object, step }: HistoryEntry): boolean => {
    const begun = history.find(
      (one) => isEnding(one.object) && one.object.metadata?.uid === object.metadata?.uid,
    );
    const from = late === undefined ? steps.length : steps.indexOf(late);
    return begun !== undefined && steps.indexOf(begun.step) < from && steps.indexOf(step) >= from;
  };
  return [
    ...flappingMarks(history),
    ...written.flatMap((entry) =>
      problemsOf(entry, worlds.behind(entry), isLate(entry)).map(
        (problem) => `${entry.name} ${problem} (${entry.step})`,
      ),
    ),
  ];
}

function isEnding({ metadata }: KubeObject): boolean {
  return metadata?.deletionTimestamp !== undefined;
}

/** It writes marks of nodes and the status of footprints, makes nothing, and removes only what a deleted pool owns. */
function problemsOf(
  entry: HistoryEntry,
  views: readonly FootprintView[],
  isLate: boolean,
): readonly string[] {
  const { type, resource, object, before } = entry;
  if (resource === replicaSets && type === "DELETED") return ofSet(before ?? object, views);
  if (type !== "MODIFIED" || before === undefined) return [`was ${type} by the controller`];
  const [is, was] = [foreignOf(resource, object), foreignOf(resource, before)];
  const foreign = isDeepStrictEqual(is, was)
    ? []
    : [`had foreign things touched: ${JSON.stringify(was)} → ${JSON.stringify(is)}`];
  if (resource === nodes) return [...foreign, ...ofNode(object, before, views)];
  if (resource !== workerPools) return foreign;
  const problems = ofPool(object, before, { views, isLate });
  return [...foreign, ...problems];
}

function ofSet(set: KubeObject, views: readonly FootprintView[]): readonly string[] {
  const isRight = views.some(({ pools }) =>
    pools.some(
      (pool) => isOwned(set, pool) && isEnding(pool) && !pool.metadata?.finalizers?.includes(ORPHAN),
    ),
  );
  return isRight ? [] : ["was removed though no pool of it is being deleted"];
}

/** All but what Berth has in objects of this kind: of a pod nothing. */
function foreignOf(resource: Resource, object: KubeObject): unknown {
  const { resourceVersion: _v, managedFields: _f, ...meta } = object.metadata ?? {};
  if (resource === nodeFootprints) return { ...object, metadata: meta, status: 0 };
  if (resource === workerPools) {
    const finalizers = meta.finalizers?.filter((one) => one !== HOLD);
    return { ...object, metadata: { ...meta, finalizers } };
  }
  if (resource !== nodes) return object;
  return foreignOfNode(object);
}

/** All but marks of footprints, and the record of them. */
export function foreignOfNode(node: Node, places: MarkPlaces = STORY_PLACES): unknown {
  const { resourceVersion: _v, managedFields: _f, ...meta } = node.metadata ?? {};
  const { [places.label]: _label, ...labels } = meta.labels ?? {};
  const annotations = Object.entries(meta.annotations ?? {}).filter(
    ([key]) => key !== MARKS && !key.startsWith(places.prefix),
  );
  return { ...node, metadata: { ...meta, labels, annotations } };
}

function ofNode(is: Node, was: Node, views: readonly FootprintView[]): readonly string[] {
  const wanted = views.map((view) => wantedOn(was, view));
  const inForce = views.some(({ footprints }) => footprints.length > 0);
  return marksProblems(is, was, { wanted, inForce });
}

/** What may have been decided by. */
interface Reasons {
  /** At each moment. */
  readonly wanted: readonly Marks[];
  /** Was there a footprint at one of them? What stands on nodes is its own then. */
  readonly inForce: boolean;
}

/** Marks that came or went on a node without a reason, or are recorded as what they are not. */
export function marksProblems(
  is: Node,
  was: Node,
  { wanted, inForce }: Reasons,
  places: MarkPlaces = STORY_PLACES,
): readonly string[] {
  const [after, before] = [marksOf(is, places), marksOf(was, places)];
  const ours = recordedOf(was);
  const changed = new Set([...after.keys(), ...before.keys()]);
  const problems = [...changed].flatMap((place): readonly string[] => {
    const value = after.get(place);
    if (value === before.get(place)) return [];
    if (value !== undefined)
      return wanted.some((marks) => marks.get(place) === value) ? [] : [`got ${place}=${value} for no pod`];
    if (!inForce && ours[place] === undefined) return [`lost ${place}, which is somebody else's`];
    return wanted.some((marks) => !marks.has(place)) ? [] : [`lost ${place} though pods need it`];
  });
  const recorded = Object.keys(recordedOf(is)).toSorted();
  const standing = [...after.keys()].toSorted();
  if (!isDeepStrictEqual(recorded, standing))
    problems.push(`records ${recorded.join(", ")} and has ${standing.join(", ")}`);
  return problems;
}

interface Moment {
  readonly views: readonly FootprintView[];
  readonly isLate: boolean;
}

/** It is held while it lives, and let go once its deletion has nothing to wait for, or has waited for too long. */
function ofPool(is: WorkerPool, was: WorkerPool, { views, isLate }: Moment): readonly string[] {
  if (isHeld(is) === isHeld(was)) return ["was written for nothing"];
  const isDeleted = was.metadata?.deletionTimestamp !== undefined;
  if (isHeld(is)) return isDeleted ? ["was held though it is being deleted"] : [];
  if (!isDeleted) return ["was let go though it lives"];
  return isLate || views.some((view) => !isUsed(was, view)) ? [] : ["was let go though it has pods"];
}

/** A mark that was put on and taken off again, or the other way round, while nobody else did anything. */
export function flappingMarks(
  history: readonly HistoryEntry[],
  places: MarkPlaces = STORY_PLACES,
): readonly string[] {
  let made = new Map<string, string | undefined>();
  let step: string | undefined;
  return history.flatMap((entry) => {
    if (entry.by === "story" || entry.step !== step) made = new Map();
    step = entry.step;
    if (entry.by !== "controller" || entry.resource !== nodes) return [];
    const [before, after] = [marksOf(entry.before ?? {}, places), marksOf(entry.object, places)];
    return [...new Set([...before.keys(), ...after.keys()])].flatMap((mark) => {
      const [from, to] = [before.get(mark), after.get(mark)];
      if (from === to) return [];
      const place = `${entry.name} ${mark}`;
      const flaps = made.has(place) && made.get(place) === to;
      made.set(place, from);
      return flaps ? [`${place} flapped: ${from}, ${to} (${entry.step})`] : [];
    });
  });
}
