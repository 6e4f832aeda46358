/** Metrics of the fleet, with the names of the original. Labels have few values: never the name of an object. */
import type { Clock, MetricsRegistry, Reconcile } from "@berth/runtime";
import { findCondition, fromTime } from "@berth/runtime";
import { gates as gateNames } from "../api/keys.ts";
import type { Instance } from "../api/workload.ts";
import { awaitsQuota, tierMs } from "../instance/tiers.ts";
import type { InstanceDecision, QuotaFailure, QuotaSeen } from "../instance/view.ts";

export interface FleetMetrics {
  /** Counts and times the runs of a reconciler. */
  measured<K>(controller: string, reconcile: Reconcile<K>): Reconcile<K>;
  /** Counts what a decision about an Instance says about its quota. */
  decided(instance: Instance, decision: InstanceDecision, quota: QuotaSeen): void;
  /** Counts a question to the quota service that failed. */
  readonly failed: (reason: QuotaFailure) => void;
  /** Called at each scrape: how many quota services do not answer. */
  outages(count: () => number): void;
  /** Counts a further look at an Instance that waits for quota. @returns what the log says of it, of others nothing. */
  requeued(instance: Instance, cause: Requeue["cause"]): Requeue | undefined;
}

/** A further look at an Instance that waits for quota. */
export interface Requeue {
  readonly ageMs: number;
  /** The longest wait at this age: `15s`. */
  readonly tier: string;
  readonly cause: "pending" | "conflict";
}

/** @param hasQuota is a quota service configured? */
export function createFleetMetrics(
  registry: MetricsRegistry,
  clock: Clock,
  hasQuota: () => boolean,
): FleetMetrics {
  const runs = registry.counter<"controller" | "result">({
    name: "compute_reconcile_total",
    help: "Looks of a controller of the fleet at one object, by result: success or error.",
    labels: ["controller", "result"],
  });
  const seconds = registry.histogram<"controller">({
    name: "compute_reconcile_seconds",
    help: "How long such a look took.",
    labels: ["controller"],
  });
  const failures = registry.counter<"reason">({
    name: "compute_quota_eval_failures_total",
    help: "Looks at the quota of an Instance that failed, by reason.",
    labels: ["reason"],
  });
  const orphans = registry.counter({
    name: "compute_quota_claims_orphaned_total",
    help: "Instances that ended while their project was not known: their claims may be left over.",
  });
  const requeues = registry.counter<"tier" | "cause">({
    name: "compute_quota_requeues_total",
    help: "Further looks at an Instance that waits for quota, by wait and cause (pending or conflict).",
    labels: ["tier", "cause"],
  });
  const waits = registry.histogram({
    name: "compute_quota_gate_wait_seconds",
    help: "From the creation of an Instance to the end of its gate Quota.",
    buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600],
  });
  registry.gauge({
    name: "compute_quota_enforcement_enabled",
    help: "1 when a quota service is configured, otherwise 0.",
    collect: (it) => it.set(hasQuota() ? 1 : 0),
  });
  const ageMs = ({ metadata }: Instance): number =>
    clock.now() - (fromTime(metadata?.creationTimestamp) ?? clock.now());
  return {
    measured: (controller, reconcile) => async (key, context) => {
      const startedMs = clock.monotonic();
      let result = "error";
      try {
        const outcome = await reconcile(key, context);
        result = "success";
        return outcome;
      } finally {
        runs.inc({ controller, result });
        seconds.observe((clock.monotonic() - startedMs) / 1000, { controller });
      }
    },
    decided(instance, { gates, news }, quota) {
      if (quota.is === "unresolvable") failures.inc({ reason: "QuotaProjectIDUnresolvable" });
      if (news?.some(({ reason }) => reason === "QuotaClaimOrphaned")) orphans.inc();
      if (!awaitsQuota(instance)) return;
      const isOpening = gates !== undefined && !gates.some(({ name }) => name === gateNames.quota);
      if (isOpening) waits.observe(ageMs(instance) / 1000);
    },
    failed: (reason) => failures.inc({ reason }),
    outages(count) {
      registry.gauge({
        name: "compute_quota_silent_services",
        help: "Quota services that do not answer: one in all, or one for each project.",
        collect: (it) => it.set(count()),
      });
    },
    requeued(instance, cause) {
      const isGranted = findCondition(instance.status?.conditions, "QuotaGranted")?.status === "True";
      if (!awaitsQuota(instance) || isGranted) return undefined;
      const tier = `${tierMs(ageMs(instance)) / 1000}s`;
      requeues.inc({ tier, cause });
      return { ageMs: ageMs(instance), tier, cause };
    },
  };
}
