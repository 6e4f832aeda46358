/** Why Instances of a Workload do not run, as their objects say it. Pure. */
import { type KubeObject, pathOf } from "@berth/kube";
import { findCondition, fromTime, isConditionTrue } from "@berth/runtime";
import { rankOf } from "../api/ranks.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { awaitsQuota } from "../instance/tiers.ts";

/** One thing that keeps Instances from running. */
export interface Block {
  readonly reason: string;
  readonly message: string;
  /** `Instance default/web-us-dfw-0` */
  readonly about: string;
  /** RFC 3339. Absent: not known. */
  readonly since?: string;
  /** How much it says, see `api/ranks.ts`. */
  readonly rank: number;
}

type Said = Pick<Block, "reason" | "message"> & { readonly lastTransitionTime?: string };

/** Conditions of deployments and Workloads that, when False, say why something does not run. */
const TELLING: ReadonlySet<string> = new Set(["Available", "Progressing", "ReplicasReady"]);

/** Conditions that say so when True. */
const BAD: ReadonlySet<string> = new Set(["DeploymentConflict", "Stale"]);

/** Above all others: no correction of another block reaches a cell that does not answer. */
const STALE_RANK = 8;

/** The block with the highest rank; the first of equals. Give those of Instances first: they say the most. */
export function worstBlock(blocks: readonly Block[]): Block | undefined {
  return blocks.reduce<Block | undefined>(
    (worst, one) => (worst === undefined || one.rank > worst.rank ? one : worst),
    undefined,
  );
}

/** Of a Workload that runs as it says: none. */
export function blocksOf(
  workload: Workload | undefined,
  deployments: readonly WorkloadDeployment[],
  instances: readonly Instance[],
): readonly Block[] {
  const parents = [...deployments, ...(workload ? [workload] : [])];
  return [...instances.flatMap(instanceBlock), ...parents.flatMap(parentBlocks)];
}

/** None: it is ready. */
export function instanceBlock(instance: Instance): readonly Block[] {
  const { metadata, status } = instance;
  const about = aboutOf("Instance", instance);
  if (metadata?.deletionTimestamp !== undefined)
    return [
      {
        reason: "Deleting",
        message: "it is being deleted",
        about,
        since: metadata.deletionTimestamp,
        rank: 1,
      },
    ];
  const ready = findCondition(status?.conditions, "Ready");
  if (ready?.status === "True") return [];
  const quota = findCondition(status?.conditions, "QuotaGranted");
  const isGated = awaitsQuota(instance);
  const { reason } = ready ?? PENDING;
  const isQuota = isGated && quota?.status !== "True" && rankOf(reason) <= rankOf("PendingQuota");
  const rank = isQuota ? rankOf("PendingQuota") : Math.max(1, rankOf(reason));
  return [blockOf((isQuota ? quota : ready) ?? PENDING, { about, rank, object: instance })];
}

const PENDING: Said = { reason: "Pending", message: "Berth has not looked at it yet" };

/** Of deployments whose cell is not heard. */
export function staleBlocks(deployments: readonly WorkloadDeployment[]): readonly Block[] {
  return deployments.flatMap(parentBlocks).filter(({ rank }) => rank === STALE_RANK);
}

function parentBlocks(parent: Workload | WorkloadDeployment): readonly Block[] {
  const { spec, status } = parent;
  const about = aboutOf(spec !== undefined && "cityCode" in spec ? "WorkloadDeployment" : "Workload", parent);
  return (status?.conditions ?? [])
    .filter(({ type, status: is }) => (BAD.has(type) ? is === "True" : is === "False" && TELLING.has(type)))
    .map((condition) => {
      const rank = condition.type === "Stale" ? STALE_RANK : rankOf(condition.reason);
      return blockOf(condition, { about, rank, object: parent });
    });
}

function blockOf(
  { reason, message, lastTransitionTime }: Said,
  { about, rank, object }: Pick<Block, "about" | "rank"> & { readonly object: KubeObject },
): Block {
  // The times of defaults in a CRD are in 1970.
  const [first, changed] = [object.metadata?.creationTimestamp, lastTransitionTime];
  const since = (fromTime(changed) ?? 0) > (fromTime(first) ?? 0) ? changed : first;
  return { reason, message, about, rank, ...(since !== undefined && { since }) };
}

export function aboutOf(kind: string, { metadata }: KubeObject): string {
  return `${kind} ${pathOf(metadata)}`;
}

export function isReady({ metadata, status }: Instance): boolean {
  return metadata?.deletionTimestamp === undefined && isConditionTrue(status?.conditions, "Ready");
}
