/** Metrics of the fleet. Their names are those of the original where it has one. */
import type { MetricsRegistry, Reconcile } from "@berth/runtime";
import { findCondition } from "@berth/runtime";
import type { Instance } from "../api/workload.ts";
import { tierName } from "../instance/tiers.ts";
import type { InstanceDecision } from "../instance/view.ts";

export interface FleetMetrics {
  /** Counts and times the runs of a reconciler. */
  measured<K>(controller: string, reconcile: Reconcile<K>): Reconcile<K>;
}
