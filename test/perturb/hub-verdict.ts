/** What must never happen to a deployment that a hub brings to a cell, asked of what both clusters have said. */
import { type Workload, type WorkloadDeployment, workloadDeployments, workloads } from "@berth/fleet";
import type { KubeObject, Resource } from "@berth/kube";

/** One version of one object. */
export interface HubChange {
  readonly step: string;
  /** `project` and `hub` are namespaces of one cluster. */
  readonly where: "project" | "hub" | "cell";
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
  /** The step that deletes the Workload. */
  readonly removal: string;
  /** Berth was never started again. */
  readonly isOnlyLife: boolean;
}

/** One sentence for each thing that must not be. */
export function forbiddenOfHub(log: readonly HubChange[], trial: HubTrial): readonly string[] {
  const { steps, removal } = trial;
  const isEarly = ({ step }: HubChange): boolean =>
    !steps.includes(removal) || steps.indexOf(step) < steps.indexOf(removal);
  const early = log.filter(isEarly);
  return [
    ...deletions(early),
    ...secondOnes(early),
    ...falseZeros(early, trial),
    ...writesAtRest(log, trial),
  ];
}

const isOf = ({ resource, where }: HubChange, kind: Resource, place?: HubChange["where"]): boolean =>
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
