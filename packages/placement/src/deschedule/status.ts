/** Decides the status of a `DeschedulePolicy`. Pure. */
import { type DocumentResult, type StatusParts, toCondition } from "@berth/host";
import type { Condition } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { firstOf } from "../node/first-names.ts";
import { EVERY_NAMESPACE } from "./ledger.ts";
import type { DeschedulePolicy } from "./resource.ts";

export const descheduleConditions = {
  /** The policy is in force or has `dryRun`, and Berth reads what it needs. */
  ready: "Ready",
  /** Exists only while too many pods would go at once. */
  frozen: "EvictionsFrozen",
} as const;

/** The effects of one policy. */
export interface DescheduleCounts {
  readonly inScope: number;
  readonly lost: number;
  readonly inProgress: number;
  readonly givenUp: number;
  /** How many pods stay for each reason: `2 NoOtherNode`. */
  readonly waiting: readonly string[];
  /** Sorted, as `namespace/name`. */
  readonly first: readonly string[];
  /** Namespaces of which too many pods would go at once; `EVERY_NAMESPACE` for all of them together. */
  readonly frozen: readonly string[];
  /** Why Berth cannot do its work. */
  readonly problem?: string | undefined;
  /** Why the policy cannot be about any pod. */
  readonly aboutNothing?: string | undefined;
}

type FullStatus = NonNullable<DeschedulePolicy["status"]>;

/** @param counts `undefined`: not known yet, so the status keeps the earlier ones. */
export function describePolicy(
  { status }: DeschedulePolicy,
  result: DocumentResult,
  counts: DescheduleCounts | undefined,
): StatusParts<FullStatus> {
  const problem = result.ready ? counts?.problem : undefined;
  const said =
    problem === undefined
      ? { ...result, message: `${result.message}${counts === undefined ? "" : waitingText(counts)}` }
      : { ready: false, reason: reasons.PodsUnread, message: problem };
  const conditions: DesiredCondition[] = [toCondition(descheduleConditions.ready, said)];
  if (counts !== undefined && counts.frozen.length > 0) conditions.push(frozen(counts));
  return {
    conditions,
    ended: counts?.frozen.length === 0 ? [descheduleConditions.frozen] : [],
    rest: {
      ...status,
      ...(counts !== undefined && {
        podsInScope: counts.inScope,
        lostPods: counts.lost,
        evictionsInProgress: counts.inProgress,
        givenUpOwners: counts.givenUp,
        firstPods: counts.first,
      }),
    },
    isNews,
  };
}

function waitingText({ waiting, aboutNothing }: DescheduleCounts): string {
  if (aboutNothing !== undefined) return `; it is about no pod: ${aboutNothing}`;
  return waiting.length === 0 ? "" : `; lost pods stay: ${waiting.join(", ")}`;
}

/** Of many namespaces it names the first. */
const MAX_NAMED = 5;

function frozen({ lost, inScope, frozen: namespaces }: DescheduleCounts): DesiredCondition {
  const named = namespaces.includes(EVERY_NAMESPACE) ? [] : firstOf(namespaces, MAX_NAMED);
  const more = named.length === 0 ? 0 : namespaces.length - named.length;
  const whose = `namespaces ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  const what = named.length === 0 ? "none" : `too many of them in ${whose}, where none`;
  return {
    type: descheduleConditions.frozen,
    status: "True",
    reason: reasons.EvictionsFrozen,
    message:
      `${lost} of ${inScope} pods in scope are on wrong nodes; ${what} is evicted until fewer are for 5 minutes. ` +
      "To let them go, raise spec.breaker",
  };
}

function isNews({ type, status }: DesiredCondition, present: Condition | undefined): boolean {
  return type === descheduleConditions.frozen || status === "False" || present?.status === "False";
}
