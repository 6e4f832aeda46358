import { isApiError } from "@berth/kube";
import { type Clock, type Lister, type ObjectKey, type Reconcile, referenceTo } from "@berth/runtime";
import { type LabelRule, labelRules } from "../../api/label-rule-resource.ts";
import { reasons } from "../../api/reasons.ts";
import type { RemovalBreakers } from "../breaker.ts";
import type { Instant } from "../capability.ts";
import type { EventSink } from "../report.ts";
import { ruleName } from "./document.ts";
import type { RuleVerdict } from "./gate.ts";
import { decideStatus, type FullStatus, ruleConditions } from "./status.ts";
import type { RuleCounts } from "./tally.ts";

/** A merge patch of the status subresource, bound to the version that was looked at. */
export interface StatusPatch {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string };
  readonly status: FullStatus;
}

export interface RuleStatusOptions {
  readonly rules: Pick<Lister<LabelRule>, "get">;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (name: string, patch: StatusPatch, signal: AbortSignal) => Promise<unknown>;
  /** What became of the rule of this document. */
  readonly verdictOf: (name: string) => RuleVerdict | undefined;
  /** Over all nodes; `undefined` until every node has been looked at. */
  readonly countsOf: (rule: string) => RuleCounts | undefined;
  readonly breakers: RemovalBreakers;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** Keeps the status of LabelRules true. One patch when it differs, else nothing. */
export function createRuleStatusReconciler(options: RuleStatusOptions): Reconcile<ObjectKey> {
  const { rules, patchStatus, verdictOf, countsOf, breakers, events, clock } = options;
  return async (key, { signal, log }) => {
    const rule = rules.get(key);
    const { uid, resourceVersion, deletionTimestamp } = rule?.metadata ?? {};
    if (rule === undefined || uid === undefined || resourceVersion === undefined) return undefined;
    if (deletionTimestamp !== undefined) return undefined;
    const name = ruleName("cluster", key.name);
    const now: Instant = clock.now();
    const frozen = breakers.frozen.find((one) => one.rule === name);
    const counts = countsOf(name);
    const { status, news } = decideStatus({ rule, verdict: verdictOf(key.name), counts, frozen, now });
    if (status === undefined) return undefined;
    try {
      await patchStatus(key.name, { metadata: { uid, resourceVersion }, status }, signal);
    } catch (error) {
      // A newer version is on its way, or the rule is gone: its event brings the key back.
      if (isApiError(error, "conflict", "uidMismatch", "notFound")) return undefined;
      throw error;
    }
    for (const { type, status: state, reason, message } of news) {
      log[isGood(type, state, reason) ? "info" : "warn"]("label rule", {
        rule: name,
        condition: type,
        reason,
        message,
      });
      events?.record({
        regarding: referenceTo(labelRules, rule),
        reason,
        note: message,
        type: isGood(type, state, reason) ? "Normal" : "Warning",
        action: "KeepRule",
      });
    }
    return undefined;
  };
}

function isGood(type: string, status: string, reason: string): boolean {
  return type === ruleConditions.ready && status === "True" && reason !== reasons.RulesOverlap;
}
