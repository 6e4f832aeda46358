import { type DocumentResult, ruleName } from "@berth/host";
import type { Clock, Lister, ObjectKey, Reconcile } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { RemovalBreakers } from "../node/breaker.ts";
import type { EventSink } from "../node/report.ts";
import { createStatusReconciler, type StatusPatch } from "../node/status-reconciler.ts";
import { type LabelRule, labelRules } from "./resource.ts";
import { decideStatus, type FullStatus, ruleConditions } from "./status.ts";
import type { RuleCounts } from "./tally.ts";

export interface RuleStatusOptions {
  readonly rules: Pick<Lister<LabelRule>, "get">;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (
    name: string,
    patch: StatusPatch<FullStatus>,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** What became of the rule of this document. */
  readonly verdictOf: (name: string) => DocumentResult | undefined;
  /** Over all nodes; `undefined` until every node has been looked at. */
  readonly countsOf: (rule: string) => RuleCounts | undefined;
  readonly breakers: RemovalBreakers;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/** Keeps the status of LabelRules true. */
export function createRuleStatusReconciler(options: RuleStatusOptions): Reconcile<ObjectKey> {
  const { rules, patchStatus, verdictOf, countsOf, breakers, events, clock } = options;
  return createStatusReconciler<LabelRule, FullStatus>({
    resource: labelRules,
    objects: rules,
    patchStatus,
    action: "KeepRule",
    noun: "label rule",
    isGood: ({ type, status, reason }) =>
      type === ruleConditions.ready && status === "True" && reason !== reasons.RulesOverlap,
    ...(events && { events }),
    decide(rule, document) {
      const name = ruleName("cluster", document);
      const frozen = breakers.frozen.find((one) => one.rule === name);
      const counts = countsOf(name);
      return decideStatus({ rule, verdict: verdictOf(document), counts, frozen, now: clock.now() });
    },
  });
}
