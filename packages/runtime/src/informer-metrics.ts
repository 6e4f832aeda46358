import type { ClusterName } from "./key.ts";
import type { Counter, MetricsRegistry } from "./metrics.ts";

export interface InformerMetrics {
  readonly snapshots: Counter<"cluster" | "resource" | "how">;
  readonly failures: Counter<"cluster" | "resource" | "failure">;
  readonly handlerFailures: Counter<"cluster" | "resource">;
}

/** Labels of the informer metrics. */
export interface InformerLabels {
  readonly cluster: ClusterName;
  /** `nodes`, `deployments.apps`. */
  readonly resource: string;
}

/** The state of one informer, or of several combined, that gauges read at each scrape. */
export interface ObservedInformer {
  /** Distinguishes it from other informers of the same resource. */
  readonly name: string;
  readonly size: number;
  readonly synced: boolean;
}

interface Observed extends ObservedInformer {
  readonly quietSeconds: number | undefined;
}

/** Declares the informer metrics of one resource. Labels grow with kinds and clusters, never with objects. */
export function declareInformerMetrics(
  metrics: MetricsRegistry,
  labels: InformerLabels,
  informer: Observed,
): InformerMetrics {
  declareInformerGauges(metrics, labels, informer);
  metrics.gauge({
    name: `${metrics.prefix}informer_watch_age_seconds`,
    help: "Seconds since anything came over the watch; -1 while there is no watch. The server sends bookmarks about once a minute.",
    labels: ["cluster", "resource", "informer"],
    collect: (gauge) => gauge.set(informer.quietSeconds ?? -1, { ...labels, informer: informer.name }),
  });
  return {
    snapshots: metrics.counter({
      name: `${metrics.prefix}informer_snapshots_total`,
      help: "Complete snapshots taken, as a stream (WatchList) or in pages.",
      labels: ["cluster", "resource", "how"],
    }),
    failures: metrics.counter({
      name: `${metrics.prefix}informer_failures_total`,
      help: "Watches and lists that failed, by kind of failure.",
      labels: ["cluster", "resource", "failure"],
    }),
    handlerFailures: metrics.counter({
      name: `${metrics.prefix}informer_handler_failures_total`,
      help: "Changes whose handler threw.",
      labels: ["cluster", "resource"],
    }),
  };
}

/** Declares the gauges that combine several informers as one. */
export function declareInformerGauges(
  metrics: MetricsRegistry,
  { cluster, resource }: InformerLabels,
  informer: ObservedInformer,
): void {
  const labels = { cluster, resource, informer: informer.name };
  metrics.gauge({
    name: `${metrics.prefix}informer_objects`,
    help: "Objects in the cache of an informer.",
    labels: ["cluster", "resource", "informer"],
    collect: (gauge) => gauge.set(informer.size, labels),
  });
  metrics.gauge({
    name: `${metrics.prefix}informer_synced`,
    help: "1 once the first complete snapshot has been taken over.",
    labels: ["cluster", "resource", "informer"],
    collect: (gauge) => gauge.set(informer.synced ? 1 : 0, labels),
  });
}
