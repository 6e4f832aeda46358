/** The status of a Workload, from its deployments. Nothing in it changes with time alone. */
import { isDeepStrictEqual } from "node:util";
import { findCondition, isConditionTrue } from "@berth/runtime";
import { worstOf } from "../api/ranks.ts";
import type {
  PlacementStatus,
  ReplicaCounts,
  Workload,
  WorkloadDeployment,
  WorkloadStatus,
} from "../api/workload.ts";
import { desiredCount } from "../deployment/build.ts";
import { type Block, conditionsWith, type Verdict } from "../deployment/conditions.ts";
import { failing } from "../deployment/status.ts";
import { describeTaken, type Target, type TargetView } from "./desired.ts";

export interface WorkloadStatusView extends Pick<TargetView, "citiesUnread" | "cityNote"> {
  readonly workload: Workload;
  readonly deployments: readonly WorkloadDeployment[];
  readonly targets: readonly Target[];
  /** Sorted. */
  readonly missingNetworks: readonly string[];
  /** All deployments follow the present spec. Until then the counters are those of the spec before. */
  readonly isObserved: boolean;
  readonly nowMs: number;
}

/** A placement, and what is known of it. */
interface Part {
  readonly name: string;
  readonly deployments: readonly WorkloadDeployment[];
  readonly isAvailable: boolean;
  /** No Location serves any of its cities. */
  readonly noCity: Block | undefined;
  /** Why it is not available, by deployment name. */
  readonly blocks: readonly Block[];
}

/** The new status; the present one itself when nothing changes. Fields of others stay. */
export function workloadStatus(view: WorkloadStatusView): WorkloadStatus {
  const { workload, deployments, targets, nowMs } = view;
  const { metadata, spec, status } = workload;
  const { unheard: _unheard, since: _since, ...kept } = status ?? {};
  const names = new Set([
    ...(spec?.placements ?? []).map(({ name }) => name),
    ...deployments.map((it) => it.spec?.placementName ?? ""),
  ]);
  const parts = [...names].sort().map((name) => partOf(view, name));
  const taken = targets.filter(({ is }) => is === "taken").map(describeTaken);
  // Conditions and counters are about one generation.
  const generation = view.isObserved ? metadata?.generation : status?.observedGeneration;
  const isScaled =
    spec?.placements.some(({ scaleSettings }) => scaleSettings.maxReplicas !== undefined) === true;
  const next: WorkloadStatus = {
    ...kept,
    ...countsOf(deployments),
    deployments: deployments.length,
    placements: parts.map((part) => placementStatus(view, part, generation)),
    conditions: conditionsWith(status?.conditions, {
      of: {
        Available: availability(view, parts),
        Failing: failing(deployments.flatMap((it) => findCondition(it.status?.conditions, "Failing") ?? [])),
        Stale: stale(deployments),
        DeploymentConflict: taken.length === 0 ? undefined : conflict(taken),
        Scaling: isScaled
          ? { status: "False", reason: "AutoscalingNotSupported", message: NOT_SCALED }
          : undefined,
      },
      generation,
      nowMs,
    }),
    ...(generation !== undefined && { observedGeneration: generation }),
  };
  return status !== undefined && isDeepStrictEqual(next, status) ? status : next;
}

function conflict(taken: readonly string[]): Verdict {
  return { status: "True", reason: "DeploymentNameTaken", message: taken.join("; ") };
}

/** Names one of them: the others are often of the same cell. */
function stale(deployments: readonly WorkloadDeployment[]): Verdict | undefined {
  const found = deployments.flatMap(({ metadata, status }) => {
    const { status: is, reason = "", message = "" } = findCondition(status?.conditions, "Stale") ?? {};
    return is === "True" ? [{ reason, message: `${metadata?.name}: ${message}` }] : [];
  });
  const [first, ...more] = found.toSorted((a, b) => (a.message < b.message ? -1 : 1));
  if (first === undefined) return undefined;
  const also = more.length === 0 ? "" : `, and ${more.length} more`;
  return { status: "True", reason: first.reason, message: `${first.message}${also}` };
}

const NOT_SCALED = "nothing acts on maxReplicas and metrics: each city runs minReplicas Instances";

function countsOf(deployments: readonly WorkloadDeployment[]): ReplicaCounts {
  const sum = (of: (deployment: WorkloadDeployment) => number | undefined): number =>
    deployments.reduce((total, deployment) => total + (of(deployment) ?? 0), 0);
  const [since] = deployments.flatMap(({ status }) => status?.since ?? []).sort();
  return {
    replicas: sum(({ status }) => status?.replicas),
    currentReplicas: sum(({ status }) => status?.currentReplicas),
    updatedReplicas: sum(({ status }) => status?.updatedReplicas),
    desiredReplicas: sum(desiredCount),
    readyReplicas: sum(({ status }) => status?.readyReplicas),
    ...(since !== undefined && { unheard: sum(({ status }) => status?.unheard), since }),
  };
}

function partOf(view: WorkloadStatusView, name: string): Part {
  const { deployments, targets, citiesUnread } = view;
  const own = deployments
    .filter(({ spec }) => spec?.placementName === name)
    .toSorted((a, b) => ((a.metadata?.name ?? "") < (b.metadata?.name ?? "") ? -1 : 1));
  const ownTargets = targets.filter(({ placement }) => placement.name === name);
  const hasNoCity = ownTargets.length > 0 && ownTargets.every(({ is }) => is === "unserved");
  const noCity = hasNoCity ? noCityOf(ownTargets, view) : undefined;
  const taken = ownTargets.filter(({ is }) => is === "taken");
  return {
    name,
    deployments: own,
    isAvailable: own.some(({ status }) => isConditionTrue(status?.conditions, "Available")),
    noCity,
    blocks: [
      ...(noCity ? [noCity] : []),
      ...(citiesUnread !== undefined && ownTargets.some(({ is }) => is === "unread")
        ? [{ reason: "NetworksNotRead", message: citiesUnread }]
        : []),
      ...taken.map((target) => ({ reason: "DeploymentNameTaken", message: describeTaken(target) })),
      ...own.flatMap(({ status }) => findCondition(status?.conditions, "Available") ?? []),
    ],
  };
}

function noCityOf(targets: readonly Target[], { cityNote }: WorkloadStatusView): Block {
  const cities = targets.map(({ city }) => `${city}${cityNote?.(city) ?? ""}`);
  const message = `no Location serves a city of the placement: ${cities.join(", ")}`;
  return { reason: "NoMatchingLocations", message };
}

function placementStatus(
  { workload, nowMs }: WorkloadStatusView,
  part: Part,
  generation: number | undefined,
): PlacementStatus {
  const { name, deployments, isAvailable, noCity } = part;
  const stored = workload.status?.placements?.find((it) => it.name === name);
  const { unheard: _unheard, since: _since, ...present } = stored ?? {};
  const none = { reason: "NoAvailableDeployments", message: "no deployment of the placement is available" };
  const available: Verdict = isAvailable
    ? {
        status: "True",
        reason: "AvailableDeploymentFound",
        message: "a deployment of the placement is available",
      }
    : { status: "False", ...(noCity ?? none) };
  return {
    ...present,
    name,
    ...countsOf(deployments),
    conditions: conditionsWith(stored?.conditions, {
      of: { Available: available },
      generation,
      nowMs,
    }),
  };
}

function availability({ missingNetworks }: WorkloadStatusView, parts: readonly Part[]): Verdict {
  if (missingNetworks.length > 0) {
    const message = `Unable to find networks: ${missingNetworks.join(", ")}`;
    return { status: "False", reason: "NetworkNotFound", message };
  }
  if (parts.some(({ isAvailable }) => isAvailable))
    return { status: "True", reason: "AvailablePlacementFound", message: "a placement is available" };
  const none = { reason: "NoAvailablePlacements", message: "no placement is available" };
  const { reason, message } = worstOf<Block>(
    none,
    parts.flatMap(({ blocks }) => blocks),
  );
  return { status: "False", reason, message };
}
