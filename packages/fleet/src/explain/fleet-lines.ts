/** What runs in each city, one line for each Workload. Pure. */
import { formatAge, formatColumns } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { fromTime } from "@berth/runtime";
import { annotations as keys, labels, projectOfNamespace } from "../api/keys.ts";
import { parsePlacement } from "../api/placement.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { desiredCount } from "../deployment/build.ts";
import { blocksOf, worstBlock } from "./blocks.ts";
import { isCarried } from "./planes.ts";

/** A Workload in one city. */
export interface FleetLine {
  readonly city: string;
  /** Only where the hub alone was read. */
  readonly project?: string;
  /** In the project. */
  readonly namespace: string;
  readonly workload: string;
  readonly wanted: number;
  readonly ready: number;
  readonly updated: number;
  /** Those of `ready` whose cell is not heard: what they do now is not known. */
  readonly unheard: number;
  /** RFC 3339: when that cell was heard last. */
  readonly since?: string;
  /** Names of the cells that have it: two during a move. Empty: not known, or none. */
  readonly cells: readonly string[];
  /** What blocks it. `Moving`: to another cell. `AwaitingEcho`: its cell has not confirmed the present template. Empty: nothing. */
  readonly reason: string;
}

export interface FleetLists {
  readonly workloads: readonly Workload[];
  readonly deployments: readonly WorkloadDeployment[];
  /** Of deployments that are not at rest, at least. */
  readonly instances: readonly Instance[];
  /** Of the hub: for the project of each. */
  readonly namespaces: readonly KubeObject[];
}

/** It is the hub's: a project may be in the same cluster. */
export function isOfHub({ metadata }: WorkloadDeployment): boolean {
  return metadata?.annotations?.[keys.sourceUid] !== undefined;
}

/** Does its status say that all of it runs, and is that news? */
export function isDeploymentAtRest({ metadata, status }: WorkloadDeployment): boolean {
  const { desiredReplicas, replicas, readyReplicas, updatedReplicas, observedGeneration } = status ?? {};
  const isNoted = observedGeneration === metadata?.generation && status?.since === undefined;
  return isNoted && [replicas, readyReplicas, updatedReplicas].every((it) => it === desiredReplicas);
}

/**
 * From the deployments of projects. Deployments of a hub say in which cells those are; without any of a project, they say all.
 */
export function fleetLines({
  workloads,
  deployments,
  instances,
  namespaces,
}: FleetLists): readonly FleetLine[] {
  const ofHub = deployments.filter(isOfHub);
  const ofProjects = deployments.filter((it) => !isOfHub(it));
  const cellsOf = new Map(ofHub.map((it) => [it.metadata?.annotations?.[keys.sourceUid], cellsIn(it)]));
  const isHubAlone = ofProjects.length === 0 && workloads.length === 0;
  const namespaceOf = new Map(namespaces.map((it) => [it.metadata?.name, it]));
  const parts = isHubAlone
    ? ofHub.map((it) => partOfHub(it, namespaceOf.get(it.metadata?.namespace)))
    : ofProjects.map((it) => partOf(it, cellsOf.get(it.metadata?.uid)));
  const all = [...parts, ...workloads.flatMap((it) => missingParts(it, parts))];
  const instancesBy = Map.groupBy(
    instances,
    ({ metadata }) => `${metadata?.namespace}/${metadata?.labels?.[labels.deploymentName]}`,
  );
  return [...Map.groupBy(all, idOf).values()]
    .map((of) => lineOf(of, instancesBy))
    .toSorted((a, b) => idOf(a).localeCompare(idOf(b), "en", { numeric: true }));
}

interface Part extends Pick<FleetLine, "city" | "project" | "namespace" | "workload" | "wanted"> {
  readonly deployment?: WorkloadDeployment;
  /** During a move, the other one too. */
  readonly cells?: readonly string[] | undefined;
  /** Of a placement without a deployment. */
  readonly of?: Workload;
}

/** On the hub: its own, and the one that it moves to. */
function cellsIn({ metadata }: WorkloadDeployment): readonly string[] {
  const placement = parsePlacement(metadata?.annotations?.[keys.placement]);
  return [placement, placement?.next].flatMap((it) => it?.cell ?? []);
}

function partOf(deployment: WorkloadDeployment, cells: readonly string[] | undefined): Part {
  const { metadata, spec } = deployment;
  return {
    city: spec?.cityCode ?? "",
    namespace: metadata?.namespace ?? "",
    workload: spec?.workloadRef.name ?? "",
    wanted: desiredCount(deployment),
    deployment,
    cells,
  };
}

function partOfHub(deployment: WorkloadDeployment, namespace: KubeObject | undefined): Part {
  const marks = deployment.metadata?.labels;
  const part = partOf(deployment, cellsIn(deployment));
  const project = namespace && projectOfNamespace(namespace);
  return {
    ...part,
    ...(project !== undefined && { project }),
    namespace: marks?.[labels.upstreamNamespace] ?? part.namespace,
  };
}

function idOf({ city, project = "", namespace, workload }: Omit<Part, "wanted">): string {
  return [city, project, namespace, workload].join("/");
}

/** Placements for which there is no deployment yet. */
function missingParts(workload: Workload, parts: readonly Part[]): readonly Part[] {
  const { metadata, spec } = workload;
  const own = parts.filter(({ deployment }) => deployment?.spec?.workloadRef.uid === metadata?.uid);
  return (spec?.placements ?? []).flatMap(({ name, cityCodes, scaleSettings }) =>
    cityCodes
      .filter((city) => !own.some((it) => it.city === city && it.deployment?.spec?.placementName === name))
      .map((city) => ({
        city,
        namespace: metadata?.namespace ?? "",
        workload: metadata?.name ?? "",
        wanted: scaleSettings.minReplicas,
        of: workload,
      })),
  );
}

function lineOf(parts: readonly Part[], instancesBy: ReadonlyMap<string, readonly Instance[]>): FleetLine {
  const [{ city, project, namespace, workload } = NO_PART] = parts;
  const sum = (of: (part: Part) => number | undefined): number =>
    parts.reduce((total, part) => total + (of(part) ?? 0), 0);
  const blocks = parts.flatMap(({ deployment, of }) =>
    deployment === undefined
      ? blocksOf(of, [], [])
      : blocksOf(
          undefined,
          [deployment],
          instancesBy.get(`${deployment.metadata?.namespace}/${deployment.metadata?.name}`) ?? [],
        ),
  );
  const isSeen = parts.every(({ deployment }) => deployment?.status !== undefined);
  const isMoving = parts.some((it) => (it.cells ?? []).length > 1);
  const isLate = parts.some(({ deployment }) => deployment && !isConfirmed(deployment));
  const quiet = isMoving ? "Moving" : isLate ? "AwaitingEcho" : "";
  const [since] = parts.flatMap(({ deployment }) => deployment?.status?.since ?? []).sort();
  return {
    city,
    ...(project !== undefined && { project }),
    namespace,
    workload,
    wanted: sum((it) => it.wanted),
    ready: sum((it) => it.deployment?.status?.readyReplicas),
    updated: sum((it) => it.deployment?.status?.updatedReplicas),
    unheard: sum((it) => it.deployment?.status?.unheard),
    ...(since !== undefined && { since }),
    cells: [...new Set(parts.flatMap((it) => it.cells ?? []))].sort(),
    reason: worstBlock(blocks)?.reason ?? (isSeen ? quiet : "Pending"),
  };
}

/** Its counts are about the present template: the cell says so. Another program in the cell may never do. */
function isConfirmed(deployment: WorkloadDeployment): boolean {
  const { metadata, status } = deployment;
  return !isCarried(deployment) || status?.observedGeneration === metadata?.generation;
}

const NO_PART: Part = { city: "", namespace: "", workload: "", wanted: 0 };

/** Ends with a line feed. @param nowMs wall clock. */
export function formatFleet(lines: readonly FleetLine[], nowMs: number): string {
  const hasProjects = lines.some(({ project }) => project !== undefined);
  const rows = lines.map((it) => [
    it.city,
    ...(hasProjects ? [it.project ?? ""] : []),
    it.namespace,
    it.workload,
    it.cells.join(","),
    ...[it.wanted, it.ready, it.updated].map(String),
    it.since === undefined
      ? String(it.unheard)
      : `${it.unheard} (${formatAge(nowMs - (fromTime(it.since) ?? nowMs))})`,
    it.reason,
  ]);
  const headings = ["CITY", ...(hasProjects ? ["PROJECT"] : []), "NAMESPACE", "WORKLOAD", "CELL"];
  return formatColumns([[...headings, "WANTED", "READY", "UPDATED", "UNHEARD", "REASON"], ...rows]);
}
