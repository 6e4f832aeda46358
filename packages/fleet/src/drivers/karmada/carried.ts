/** What cells say of a deployment that Karmada carries, and whether it has to be pushed again. Pure. */
import { findCondition, fromTime, isConditionTrue } from "@berth/runtime";
import type { MemberCluster, PropagationPolicy, ResourceBinding } from "../../api/karmada.ts";
import { annotations as keys, labels } from "../../api/keys.ts";
import type { DeploymentStatus, WorkloadDeployment } from "../../api/workload.ts";
import type { Verdict } from "../../deployment/conditions.ts";
import type { Staleness } from "../../hub/mirror/status.ts";
import { cityOf } from "./policy.ts";

/** How long a cell may take to echo a generation, and until the next push, ms. */
export const ECHO_MS = 60_000;
/** How long Karmada may take to choose a cell, ms. */
const UNPLACED_MS = 60_000;

export interface CarriedView {
  /** On the hub. */
  readonly deployment: WorkloadDeployment;
  /** `undefined`: Karmada has not made it, or it is that of an earlier deployment of the name. */
  readonly binding: ResourceBinding | undefined;
  /** That of its city. */
  readonly policy: PropagationPolicy | undefined;
  /** All that have joined Karmada. */
  readonly clusters: readonly MemberCluster[];
  /** Since this process first saw that a cell lags behind, ms. */
  readonly behindForMs: number;
  readonly nowMs: number;
}

export interface Carried {
  /** The deployment of the hub with the status that cells say. `undefined`: none has said one. */
  readonly from?: WorkloadDeployment;
  /** Why the numbers are no news. */
  readonly stale?: Staleness;
  /** Conditions of the hub itself. */
  readonly own: Readonly<Record<string, Verdict | undefined>>;
  /** A cell has an older generation, or Karmada could not apply it there. */
  readonly isBehind: boolean;
  /** When Karmada has had its time to choose a cell. */
  readonly recheckAfterMs?: number;
}

/** A cell that should have it, and what is known of it there. */
interface Holder {
  readonly cell: string;
  readonly status: DeploymentStatus | undefined;
  readonly isApplied: boolean;
  readonly message: string;
  readonly away: Staleness | undefined;
}

export function carriedOf(view: CarriedView): Carried {
  const holders = holdersOf(view);
  if (holders.length === 0) return unplaced(view);
  const names = holders.map(({ cell }) => cell).join(", ");
  const double =
    holders.length > 1 &&
    ({
      status: "False",
      reason: "AmbiguousCell",
      message: `cells ${names} have it: take the label ${labels.city} from all but one of these Clusters`,
    } as const);
  const own = { Placed: double || undefined };
  const generation = Number(view.deployment.metadata?.annotations?.[keys.sourceGeneration]);
  const away = holders.find((it) => it.away !== undefined)?.away;
  if (away !== undefined) return { stale: away, own, isBehind: false };
  const late = holders.find((it) => isBehind(it, generation));
  const isLate = late !== undefined && view.behindForMs >= ECHO_MS;
  const message = `cell ${late?.cell} has not taken generation ${generation}: ${late?.message || "it has an older one"}. It is pushed again`;
  const rest = {
    isBehind: late !== undefined,
    own: {
      ...own,
      Stale: isLate ? ({ status: "True", reason: "AwaitingEcho", message } as const) : undefined,
    },
  };
  const said = holders.flatMap(({ status }) => (status?.replicas === undefined ? [] : status));
  // Karmada empties the status of what it could not apply: the numbers of before are no zeros.
  if (said.length < holders.length) return rest;
  const { metadata, spec } = view.deployment;
  const status = sumOf(said, metadata?.generation);
  return { ...rest, from: { ...(metadata && { metadata }), ...(spec && { spec }), status } };
}

function holdersOf(view: CarriedView): readonly Holder[] {
  const { binding } = view;
  const items = new Map((binding?.status?.aggregatedStatus ?? []).map((it) => [it.clusterName, it]));
  return (binding?.spec?.clusters ?? [])
    .map(({ name: cell }) => {
      const item = items.get(cell);
      return {
        cell,
        status: item?.status as DeploymentStatus | undefined,
        isApplied: item?.applied !== false,
        message: item?.appliedMessage ?? "",
        away: awayOf(cell, view),
      };
    })
    .toSorted((a, b) => (a.cell < b.cell ? -1 : 1));
}

function awayOf(name: string, { clusters, nowMs }: CarriedView): Staleness | undefined {
  const cluster = clusters.find(({ metadata }) => metadata?.name === name);
  const ready = findCondition(cluster?.status?.conditions, "Ready");
  if (ready?.status === "True") return undefined;
  const message = `cell ${name}: ${ready?.message ?? "no Cluster of this name has joined Karmada"}`;
  return { reason: "CellUnreachable", message, sinceMs: fromTime(ready?.lastTransitionTime) ?? nowMs };
}

/** A cell whose controller is the original never echoes: nothing is known, and nothing is pushed. */
function isBehind({ status, isApplied }: Holder, generation: number): boolean {
  const echo = status?.observedSourceGeneration;
  return !isApplied || (echo !== undefined && echo < generation);
}

function unplaced({ deployment, binding, policy, clusters, nowMs }: CarriedView): Carried {
  const ageMs = nowMs - Date.parse(deployment.metadata?.creationTimestamp ?? "");
  if (ageMs < UNPLACED_MS) return { own: {}, isBehind: false, recheckAfterMs: UNPLACED_MS - ageMs };
  const city = deployment.metadata?.labels?.[labels.city] ?? "";
  const policyCity = policy && cityOf(policy);
  const serving = clusters.filter(({ metadata }) => metadata?.labels?.[labels.city] === city);
  const scheduled = findCondition(binding?.status?.conditions, "Scheduled")?.message;
  const why =
    policy !== undefined && policyCity !== city
      ? `PropagationPolicy ${policy.metadata?.name} is that of ${policyCity ? `city ${policyCity}` : "another program"}`
      : (scheduled ?? "Karmada has not chosen a cell");
  const message =
    serving.length === 0 ? `no cell serves city ${city}` : `no cell of city ${city} has it: ${why}`;
  const verdict = { status: "False", reason: "NoMatchingLocation", message } as const;
  return { own: { Available: verdict, Placed: verdict }, isBehind: false };
}

/**
 * F2: numbers are added, it is available where one cell says so, and all other conditions are those of the worst cell.
 *
 * @param generation of the deployment on the hub, if all have echoed what the hub brought.
 */
export function sumOf(said: readonly DeploymentStatus[], generation: number | undefined): DeploymentStatus {
  const [worst, ...others] = said.toSorted((a, b) => rankOf(a) - rankOf(b));
  const sum = (of: (it: DeploymentStatus) => number | undefined): number =>
    said.reduce((all, it) => all + (of(it) ?? 0), 0);
  const available = others
    .flatMap(({ conditions }) => findCondition(conditions, "Available") ?? [])
    .find(({ status }) => status === "True");
  const conditions = (worst?.conditions ?? []).filter(({ type }) => !(available && type === "Available"));
  const echoes = said.map((it) => it.observedSourceGeneration);
  const echo = echoes.includes(undefined) ? undefined : Math.min(...echoes.map((it) => it ?? 0));
  return {
    replicas: sum((it) => it.replicas),
    currentReplicas: sum((it) => it.currentReplicas),
    updatedReplicas: sum((it) => it.updatedReplicas),
    desiredReplicas: sum((it) => it.desiredReplicas),
    readyReplicas: sum((it) => it.readyReplicas),
    conditions: available ? [...conditions, available] : conditions,
    ...(worst?.location && { location: worst.location }),
    ...(generation !== undefined && { observedGeneration: generation }),
    ...(echo !== undefined && { observedSourceGeneration: echo }),
  };
}

function rankOf({ conditions, readyReplicas, desiredReplicas }: DeploymentStatus): number {
  const isAvailable = isConditionTrue(conditions, "Available") ? 1_000_000 : 0;
  return isAvailable + (readyReplicas ?? 0) - (desiredReplicas ?? 0);
}
