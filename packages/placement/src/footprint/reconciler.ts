import type { Clock, Lister, ObjectKey, Reconcile } from "@berth/runtime";
import type { EventSink } from "../node/report.ts";
import { createStatusReconciler, type StatusPatch } from "../node/status-reconciler.ts";
import { type FootprintJudgement, type FootprintProgress, isGoodCondition } from "./conditions.ts";
import { type NodeFootprint, nodeFootprints } from "./resource.ts";
import { decideFootprintStatus, type FootprintStatusPatch } from "./status.ts";

export interface FootprintStatusOptions {
  readonly objects: Pick<Lister<NodeFootprint>, "get">;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (
    name: string,
    patch: StatusPatch<FootprintStatusPatch>,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** What became of this document. */
  readonly judgementOf: (name: string) => FootprintJudgement | undefined;
  /** By rule; `undefined` while it is not in force. */
  readonly progressOf: (rule: string) => FootprintProgress | undefined;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** Keeps the status of NodeFootprints true. */
export function createFootprintStatusReconciler(options: FootprintStatusOptions): Reconcile<ObjectKey> {
  const { objects, patchStatus, judgementOf, progressOf, events, clock } = options;
  return createStatusReconciler<NodeFootprint, FootprintStatusPatch>({
    resource: nodeFootprints,
    objects,
    patchStatus,
    action: "KeepFootprint",
    noun: "node footprint",
    isGood: isGoodCondition,
    ...(events && { events }),
    decide: (object, name) =>
      decideFootprintStatus({
        object,
        judgement: judgementOf(name),
        progress: progressOf(`cluster/${name}`),
        now: clock.now(),
      }),
  });
}
