/** Builds the status of an `ArchitecturePolicy` as plain data. */
import { type DocumentResult, type StatusParts, toCondition } from "@berth/host";
import type { Condition } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { NodeCounts } from "../node/pass.ts";
import type { BootstrapState, Bootstraps } from "./bootstrap.ts";
import type { ArchitecturePolicy, ArchitecturePolicyStatus } from "./resource.ts";
import type { PodCounts, Uncovered } from "./tally.ts";
import type { Workloads } from "./workloads.ts";

/** Types of the conditions of an ArchitecturePolicy. */
export const architectureConditions = {
  /** The policy is in force as it is written. */
  ready: "Ready",
  /** Whether nodes get its taint. Not for the mode `Affinity`. */
  tainting: "Tainting",
  /** The API server asks Berth about new pods and DaemonSets. */
  admission: "Admission",
} as const;

/** The state of a policy in force. A field is `undefined` until Berth knows it: the status keeps its former value. */
export interface ArchitectureProgress {
  readonly bootstrap: BootstrapState;
  readonly taintedNodes: number | undefined;
  readonly uncovered: Uncovered | undefined;
  readonly pods: PodCounts | undefined;
}

/** `undefined`: the policy is not in force. */
export function progressOf(
  rule: string,
  bootstraps: Bootstraps,
  nodes: NodeCounts<{ readonly tainted: number }>,
  { pass, tally }: Pick<Workloads, "pass" | "tally">,
): ArchitectureProgress | undefined {
  const bootstrap = bootstraps.state(rule);
  return (
    bootstrap && {
      bootstrap,
      taintedNodes: nodes.of(rule)?.tainted,
      uncovered: pass.done ? tally.uncovered(bootstrap.key) : undefined,
      pods: pass.done ? tally.pods(rule) : undefined,
    }
  );
}

export interface ArchitectureStatusInput {
  readonly policy: ArchitecturePolicy;
  readonly result: DocumentResult;
  /** `undefined` while it is not in force. */
  readonly progress: ArchitectureProgress | undefined;
  /** Does the API server ask Berth? `undefined` while Berth does not know. */
  readonly admission: DocumentResult | undefined;
}

export function describePolicy(input: ArchitectureStatusInput): StatusParts<ArchitecturePolicyStatus> {
  const { policy, progress } = input;
  const conditions = conditionsOf(input);
  const wanted = new Set(conditions.map(({ type }) => type));
  const ours = Object.values<string>(architectureConditions);
  return {
    conditions,
    // After a change of mode, the conditions of the former mode go.
    ended: ours.filter((type) => !wanted.has(type) && isOver(type, input)),
    rest: { ...policy.status, ...(progress && countsOf(progress)) },
    isNews,
  };
}

function countsOf({
  bootstrap: { phase },
  taintedNodes,
  uncovered,
  pods,
}: ArchitectureProgress): ArchitecturePolicyStatus {
  return {
    phase,
    ...(taintedNodes !== undefined && { taintedNodes }),
    ...(uncovered !== undefined && {
      uncovered: uncovered.pods + uncovered.daemonSets,
      firstUncovered: uncovered.first,
    }),
    ...(pods !== undefined && { waitingPods: pods.waiting, impossiblePods: pods.impossible }),
  };
}

function conditionsOf({ result, progress, admission }: ArchitectureStatusInput): DesiredCondition[] {
  const conditions = [toCondition(architectureConditions.ready, result)];
  if (progress === undefined) return conditions;
  const { phase, reason, message } = progress.bootstrap;
  if (phase !== "Narrowing") {
    const ready = phase === "Tainting";
    conditions.push(toCondition(architectureConditions.tainting, { ready, reason, message }));
  }
  if (admission !== undefined) conditions.push(toCondition(architectureConditions.admission, admission));
  return conditions;
}

/** Does Berth know that this condition no longer applies? */
function isOver(type: string, { result, progress }: ArchitectureStatusInput): boolean {
  if (!result.ready && progress === undefined) return type !== architectureConditions.ready;
  return type === architectureConditions.tainting && progress?.bootstrap.phase === "Narrowing";
}

/**
 * News: something stopped working, works again, waits for the user, or Berth starts to taint nodes. No news: it works
 * from the start, a bootstrap still runs, or admission is off.
 */
function isNews({ status, reason }: DesiredCondition, present: Condition | undefined): boolean {
  if (status === "True") return present?.status === "False";
  return reason !== reasons.ArchitectureBootstrapping && reason !== reasons.AdmissionOff;
}
