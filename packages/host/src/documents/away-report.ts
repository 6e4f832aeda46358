/** Reports in a metric, an Event and the log that the CRD of a kind is not served. Readiness reports it separately. */
import type { ObjectReference } from "@berth/kube";
import type { EventRecorder, Logger, MetricsRegistry } from "@berth/runtime";
import { isServed, type KindList } from "./document-kind.ts";

export interface AwayReportOptions {
  readonly kinds: KindList;
  readonly metrics: MetricsRegistry;
  readonly events: Pick<EventRecorder, "record">;
  readonly log: Logger;
  /** The object of the Events: the documents are gone with their CRD. Absent: no Events. */
  readonly self: ObjectReference | undefined;
}

/** The result takes the new message for a kind; `undefined` when its CRD is served again. */
export function createAwayReport({
  kinds,
  metrics,
  events,
  log,
  self: regarding,
}: AwayReportOptions): (kind: string, message: string | undefined) => void {
  const away = metrics.gauge({
    name: `${metrics.prefix}kind_away`,
    help: "1 while the CRD of this kind is not served although objects of it were in force.",
    labels: ["kind"],
  });
  for (const { kind } of kinds.kinds.filter(isServed)) away.set(0, { kind });
  return (kind, message) => {
    away.set(message === undefined ? 0 : 1, { kind });
    if (message === undefined) return log.info("the CRD is served again", { kind });
    const reason = "KindAway";
    log.warn(message, { kind, reason });
    if (regarding !== undefined)
      events.record({ regarding, type: "Warning", reason, action: "FollowDocuments", note: message });
  };
}
