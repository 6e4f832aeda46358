/** What must never happen to a deployment that a hub brings to a cell, asked of what both clusters have said. */
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import type { KubeObject, Resource } from "@berth/kube";
import { findCondition } from "@berth/runtime";

/** A cluster that runs deployments. */
export type CellPlane = "cell" | "other-cell";
/** `project` and `hub` are namespaces of one cluster. */
export type Where = "project" | "hub" | CellPlane;

/** One version of one object. */
export interface HubChange {
  readonly step: string;
  readonly where: Where;
  readonly resource: Resource;
  /** Local. */
  readonly name: string;
  readonly object: KubeObject;
  readonly before: KubeObject | undefined;
  readonly gone: boolean;
}

export interface HubTrial {
  /** In order, the start included. */
  readonly steps: readonly string[];
  /** The step that is about nothing. */
  readonly rest: string;
  /** The step that drains `cell`, which may end there what is in the other one. */
  readonly drain: string;
  /** The step that deletes the Workload. */
  readonly removal: string;
  /** Berth was never started again. */
  readonly isOnlyLife: boolean;
}

/** One sentence for each thing that must not be. */
export function forbiddenOfHub(log: readonly HubChange[], trial: HubTrial): readonly string[] {
  const { steps, removal, drain } = trial;
  const isBefore = (of: string, { step }: HubChange): boolean =>
    !steps.includes(of) || steps.indexOf(step) < steps.indexOf(of);
  const early = log.filter((it) => isBefore(removal, it));
  const isDrained = (it: HubChange): boolean => steps.includes(drain) && !isBefore(drain, it);
  return [
    ...deletions(early.filter((it) => !(it.where === "cell" && isDrained(it)))),
    ...secondOnes(early),
    ...twoOwners(log),
    ...shortages(early, isDrained),
    ...falseZeros(early, trial),
    ...writesAtRest(log, trial),
  ];
}

const isOf = ({ resource, where }: HubChange, kind: Resource, place?: Where): boolean =>
  resource === kind && (place === undefined || where === place);

/** Nothing ends while the project wants it. */
function deletions(early: readonly HubChange[]): readonly string[] {
  return early
    .filter(
      (it) =>
        isOf(it, workloadDeployments) && (it.gone || it.object.metadata?.deletionTimestamp !== undefined),
    )
    .map(({ where, name, step }) => `${name} was deleted from the ${where} and was wanted (${step})`);
}

function secondOnes(early: readonly HubChange[]): readonly string[] {
  const uids = new Map<string, string>();
  return early
    .filter((it) => isOf(it, workloadDeployments))
    .flatMap(({ where, name, object, step }) => {
      const [key, uid = ""] = [`${where} ${name}`, object.metadata?.uid];
      const first = uids.get(key) ?? uid;
      uids.set(key, first);
      return first === uid ? [] : [`${name} was made twice in the ${where} (${step})`];
    });
}

/** An Instance of one name in both cells. */
function twoOwners(log: readonly HubChange[]): readonly string[] {
  const owners = new Map<string, Where>();
  return log
    .filter((it) => isOf(it, instances) && it.where !== "project" && it.where !== "hub")
    .flatMap(({ where, name, gone, step }) => {
      const owner = owners.get(name) ?? where;
      if (gone && owner === where) owners.delete(name);
      else if (!gone) owners.set(name, owner);
      return gone || owner === where ? [] : [`${name} lives in the ${owner} and the ${where} (${step})`];
    });
}

/** From the drain on: fewer Ready ones than before it, in both cells, or in the words of the project. */
function shortages(early: readonly HubChange[], isDrained: (of: HubChange) => boolean): readonly string[] {
  const ready = new Set<string>();
  let wanted = 0;
  return early.flatMap((it) => {
    const { where, name, object, gone, step } = it;
    const isShort = (count: number): boolean => isDrained(it) && count < wanted;
    if (isOf(it, workloads, "project") && isShort(readyOf(object)))
      return [`${name} says ${readyOf(object)} of ${wanted} Ready (${step})`];
    if (!isOf(it, instances) || where === "project" || where === "hub") return [];
    const { metadata, status } = object as Instance;
    const isReady = findCondition(status?.conditions, "Ready")?.status === "True";
    if (!gone && isReady && metadata?.deletionTimestamp === undefined) ready.add(name);
    else ready.delete(name);
    if (!isDrained(it)) wanted = ready.size;
    return isShort(ready.size) ? [`only ${ready.size} of ${wanted} are Ready without ${name} (${step})`] : [];
  });
}

/** Numbers below all that the cell said in this step and in the one before. Its watch may be behind that of the project. */
function falseZeros(early: readonly HubChange[], { steps }: HubTrial): readonly string[] {
  const told = early
    .filter((it) => isOf(it, workloadDeployments, "cell"))
    .map((it) => ({ step: steps.indexOf(it.step), count: readyOf(it.object) }));
  return early
    .filter((it) => isOf(it, workloads, "project"))
    .flatMap((it) => {
      const at = steps.indexOf(it.step);
      const shown = readyOf(it.object);
      const counts = told.filter(({ step }) => step === at || step === at - 1).map(({ count }) => count);
      const lowest = Math.min(...counts, readyOf(it.before));
      if (shown >= lowest) return [];
      return [`${it.name} says ${shown} Ready, and at least ${lowest} were (${it.step})`];
    });
}

function readyOf(object: KubeObject | undefined): number {
  const { status } = (object ?? {}) as Workload | WorkloadDeployment;
  return status?.readyReplicas ?? 0;
}

function writesAtRest(log: readonly HubChange[], { rest, isOnlyLife }: HubTrial): readonly string[] {
  if (!isOnlyLife) return [];
  return log
    .filter((it) => it.step === rest && !isOf(it, workloads))
    .map(
      ({ where, resource, name }) =>
        `${resource.plural} ${name} changed in the ${where}, though nothing had happened`,
    );
}
