/** One line about each Workload. Pure. */
import { formatColumns } from "@berth/host";
import type { Condition, KubeObject } from "@berth/kube";
import { findCondition } from "@berth/runtime";
import { labels } from "../api/keys.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { blocksOf, worstBlock } from "./blocks.ts";

export interface WorkloadLine {
  readonly namespace: string;
  readonly name: string;
  readonly ready: number;
  readonly desired: number;
  readonly upToDate: number;
  /** Instances that exist. */
  readonly replicas: number;
  readonly available: Condition["status"];
  /** What blocks it. Empty: nothing. */
  readonly reason: string;
  readonly cities: readonly string[];
}

/** Does its status say that all of it runs? Then its deployments and Instances need not be read. */
export function isAtRest({ metadata, status }: Workload): boolean {
  const { desiredReplicas, replicas, readyReplicas, updatedReplicas, observedGeneration } = status ?? {};
  const isNoted = observedGeneration === metadata?.generation;
  return isNoted && [replicas, readyReplicas, updatedReplicas].every((it) => it === desiredReplicas);
}

/** @param deployments @param instances of the Workloads that are not at rest, at least. */
export function overview(
  workloads: readonly Workload[],
  deployments: readonly WorkloadDeployment[],
  instances: readonly Instance[],
): readonly WorkloadLine[] {
  // An object can name a Workload of another namespace.
  const idOf = ({ metadata }: KubeObject, uid: string | undefined): string => `${metadata?.namespace}/${uid}`;
  const byWorkload = Map.groupBy(deployments, (it) => idOf(it, it.spec?.workloadRef.uid));
  const instancesBy = Map.groupBy(instances, (it) => idOf(it, it.metadata?.labels?.[labels.workloadUid]));
  return workloads.map((workload): WorkloadLine => {
    const { metadata, spec, status } = workload;
    const id = idOf(workload, metadata?.uid);
    const blocks = blocksOf(workload, byWorkload.get(id) ?? [], instancesBy.get(id) ?? []);
    return {
      namespace: metadata?.namespace ?? "",
      name: metadata?.name ?? "",
      ready: status?.readyReplicas ?? 0,
      desired: status?.desiredReplicas ?? 0,
      upToDate: status?.updatedReplicas ?? 0,
      replicas: status?.replicas ?? 0,
      available: findCondition(status?.conditions, "Available")?.status ?? "Unknown",
      reason: worstBlock(blocks)?.reason ?? (status === undefined ? "Pending" : ""),
      cities: [...new Set((spec?.placements ?? []).flatMap(({ cityCodes }) => cityCodes))],
    };
  });
}

const HEADINGS = ["NAMESPACE", "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "REASON", "CITIES"];

/** Ends with a line feed. */
export function formatOverview(lines: readonly WorkloadLine[]): string {
  const rows = lines.map(({ namespace, name, ready, desired, upToDate, available, reason, cities }) => [
    namespace,
    name,
    `${ready}/${desired}`,
    String(upToDate),
    available,
    reason,
    cities.join(","),
  ]);
  return formatColumns([HEADINGS, ...rows]);
}
