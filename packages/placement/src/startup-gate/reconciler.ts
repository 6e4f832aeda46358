import type { Clock, Lister, ObjectKey, Reconcile } from "@berth/runtime";
import type { EventSink } from "../node/report.ts";
import { createStatusReconciler, type StatusPatch } from "../node/status-reconciler.ts";
import { type StartupGate, startupGates } from "./resource.ts";
import { decideGateStatus, type FullGateStatus, type GateJudgement } from "./status.ts";
import type { GateCounts } from "./tally.ts";

export interface GateStatusOptions {
  readonly gates: Pick<Lister<StartupGate>, "get">;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (
    name: string,
    patch: StatusPatch<FullGateStatus>,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** What became of this document. */
  readonly judgementOf: (name: string) => GateJudgement | undefined;
  /** Over all nodes; `undefined` until every node has been looked at. */
  readonly countsOf: (rule: string) => GateCounts | undefined;
  readonly admission: () => GateJudgement | undefined;
  /** Whether pods that name a held node are refused; `undefined` while that is not known, or no gate asks for it. */
  readonly directBinding: () => GateJudgement | undefined;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** Keeps the status of StartupGates true. */
export function createGateStatusReconciler(options: GateStatusOptions): Reconcile<ObjectKey> {
  const { gates, patchStatus, judgementOf, countsOf, admission, directBinding, events, clock } = options;
  return createStatusReconciler<StartupGate, FullGateStatus>({
    resource: startupGates,
    objects: gates,
    patchStatus,
    action: "KeepGate",
    noun: "startup gate",
    isGood: ({ status }) => status === "True",
    ...(events && { events }),
    decide: (gate, name) =>
      decideGateStatus({
        gate,
        judgement: judgementOf(name),
        counts: countsOf(`cluster/${name}`),
        admission: admission(),
        directBinding: directBinding(),
        now: clock.now(),
      }),
  });
}
