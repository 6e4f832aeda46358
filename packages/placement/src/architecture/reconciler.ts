import type { Clock, Lister, ObjectKey, Reconcile } from "@berth/runtime";
import type { EventSink } from "../node/report.ts";
import { createStatusReconciler, type StatusPatch } from "../node/status-reconciler.ts";
import { type ArchitecturePolicy, architecturePolicies } from "./resource.ts";
import {
  type ArchitectureJudgement,
  type ArchitectureProgress,
  decideArchitectureStatus,
  type FullArchitectureStatus,
} from "./status.ts";

export interface ArchitectureStatusOptions {
  readonly policies: Pick<Lister<ArchitecturePolicy>, "get">;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (
    name: string,
    patch: StatusPatch<FullArchitectureStatus>,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** What became of this document. */
  readonly judgementOf: (name: string) => ArchitectureJudgement | undefined;
  /** By rule; `undefined` while it is not in force. */
  readonly progressOf: (rule: string) => ArchitectureProgress | undefined;
  readonly admission: () => ArchitectureJudgement | undefined;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** Keeps the status of ArchitecturePolicies true. */
export function createArchitectureStatusReconciler(options: ArchitectureStatusOptions): Reconcile<ObjectKey> {
  const { policies, patchStatus, judgementOf, progressOf, admission, events, clock } = options;
  return createStatusReconciler<ArchitecturePolicy, FullArchitectureStatus>({
    resource: architecturePolicies,
    objects: policies,
    patchStatus,
    action: "KeepArchitecturePolicy",
    noun: "architecture policy",
    isGood: ({ status }) => status === "True",
    ...(events && { events }),
    decide: (policy, name) =>
      decideArchitectureStatus({
        policy,
        judgement: judgementOf(name),
        progress: progressOf(`cluster/${name}`),
        admission: admission(),
        now: clock.now(),
      }),
  });
}
