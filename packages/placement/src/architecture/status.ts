/** What an `ArchitecturePolicy` says about itself: decided as plain data. */
import type { DocumentResult, StatusDecision } from "@berth/host";
import type { Condition } from "@berth/kube";
import { type DesiredCondition, isSameData, mergeConditions, withoutConditions } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import type { BootstrapState } from "./bootstrap.ts";
import type { ArchitecturePolicyStatus } from "./document.ts";
import type { ArchitecturePolicy } from "./resource.ts";
import type { PodCounts, Uncovered } from "./tally.ts";

/** Types of the conditions of an ArchitecturePolicy. */
export const architectureConditions = {
  /** The policy is in force as it is written. */
  ready: "Ready",
  /** Nodes are tainted by it; only where it is to taint nodes. */
  tainting: "Tainting",
  /** New pods and DaemonSets are asked about. */
  admission: "Admission",
} as const;

export type FullArchitectureStatus = ArchitecturePolicyStatus & {
  readonly conditions?: readonly Condition[];
};

/** What became of one version of a document, or of what it needs. */
export type ArchitectureJudgement = DocumentResult;

/** What is known of a policy in force. Each part is `undefined` until it can be told: then what was said before stays. */
export interface ArchitectureProgress {
  readonly bootstrap: BootstrapState;
  readonly taintedNodes: number | undefined;
  readonly uncovered: Uncovered | undefined;
  readonly pods: PodCounts | undefined;
}

export interface ArchitectureStatusInput {
  readonly policy: ArchitecturePolicy;
  /** `undefined` while this version has not been looked at. */
  readonly judgement: ArchitectureJudgement | undefined;
  /** `undefined` while it is not in force. */
  readonly progress: ArchitectureProgress | undefined;
  /** Whether the API server asks; `undefined` while that is not known. */
  readonly admission: ArchitectureJudgement | undefined;
  readonly now: Instant;
}

export function decideArchitectureStatus(
  input: ArchitectureStatusInput,
): StatusDecision<FullArchitectureStatus> {
  const { policy, judgement, progress, now } = input;
  if (judgement === undefined) return { status: undefined, news: [] };
  const { status: current = {}, metadata: { generation } = {} } = policy;
  const version = generation === undefined ? {} : { observedGeneration: generation };
  const desired = conditionsOf({ ...input, judgement }).map((it) => Object.assign(it, version));
  const wanted = new Set(desired.map(({ type }) => type));
  const ours = Object.values<string>(architectureConditions);
  // A change of mode leaves nothing behind that speaks of the other one.
  const stale = ours.filter((type) => !wanted.has(type) && isOver(type, input));
  const next: FullArchitectureStatus = {
    ...current,
    ...version,
    ...(progress && countsOf(progress)),
    conditions: withoutConditions(mergeConditions(current.conditions, desired, now), stale),
  };
  const news = desired.filter((condition) => isNews(condition, current.conditions));
  return { status: isSameData(current, next) ? undefined : next, news };
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

function conditionsOf({
  judgement,
  progress,
  admission,
}: Pick<ArchitectureStatusInput, "progress" | "admission"> & {
  readonly judgement: ArchitectureJudgement;
}): DesiredCondition[] {
  const conditions = [toCondition(architectureConditions.ready, judgement)];
  if (progress === undefined) return conditions;
  const { phase, reason, message } = progress.bootstrap;
  if (phase !== "Narrowing") {
    const ready = phase === "Tainting";
    conditions.push(toCondition(architectureConditions.tainting, { ready, reason, message }));
  }
  if (admission !== undefined) conditions.push(toCondition(architectureConditions.admission, admission));
  return conditions;
}

function toCondition(type: string, { ready, reason, message }: ArchitectureJudgement): DesiredCondition {
  return { type, status: ready ? "True" : "False", reason, message };
}

/** Is it known that there is nothing to say about this any more? */
function isOver(type: string, { judgement, progress }: ArchitectureStatusInput): boolean {
  if (judgement?.ready === false && progress === undefined) return type !== architectureConditions.ready;
  return type === architectureConditions.tainting && progress?.bootstrap.phase === "Narrowing";
}

/**
 * Something stopped working, works again, or waits for a person; and that nodes are tainted from now on. That it works
 * from the start, and that a bootstrap takes its time, is no news.
 */
function isNews(
  { type, status, reason }: DesiredCondition,
  before: readonly Condition[] | undefined,
): boolean {
  const present = before?.find((condition) => condition.type === type);
  if (present?.status === status && present.reason === reason) return false;
  if (status === "True") return present?.status === "False";
  return reason !== reasons.ArchitectureBootstrapping && reason !== reasons.AdmissionOff;
}
