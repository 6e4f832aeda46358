/** Decides which removals wait: for the delay of a rule, or because too many nodes would lose its marks. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { RemovalBreakers, Times } from "./breaker.ts";
import type { Finding, Policy, RemovalPolicy } from "./capability.ts";
import type { Change } from "./change.ts";
import type { MarkId } from "./mark.ts";
import type { RecordedMark } from "./record.ts";

/** The pending removals of one node. Immutable. */
export interface Leaving {
  /** Marks whose inputs disappeared, with the time at which Berth found out: monotonic ms. */
  readonly since: ReadonlyMap<MarkId, number>;
}

export const nothingLeaving: Leaving = Object.freeze({ since: new Map() });

export interface RemovalInput extends Times {
  readonly node: string;
  readonly owned: ReadonlyMap<MarkId, RecordedMark>;
  readonly changes: readonly Change[];
  readonly policies: ReadonlyMap<string, Policy>;
  readonly breakers: RemovalBreakers;
}

export interface RemovalAssessment {
  readonly leaving: Leaving;
  /** Removals that wait, with the reason. */
  readonly withheld: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  readonly recheckAfterMs?: number;
}

/** The time between checks of frozen removals. The breaker sends no event to the node. Milliseconds. */
const FROZEN_RECHECK_MS = 30_000;

/** Decides which removals wait. Counts the node in the breakers of the rules concerned. */
export function assessRemovals(before: Leaving, input: RemovalInput): RemovalAssessment {
  const { node, owned, changes, policies, breakers, nowMs } = input;
  const careful = changes.flatMap((change) => {
    const policy = policyOf(change, policies);
    return policy === undefined ? [] : [{ change, policy }];
  });
  const losing = new Set(careful.map(({ change }) => change.rule));
  const carried = new Set(losing);
  for (const { capability, rule } of owned.values())
    if (policies.get(capability)?.removals?.has(rule) === true) carried.add(rule);
  breakers.put(
    node,
    Array.from(carried, (rule) => ({ rule, phases: losing.has(rule) ? LOSING : CARRYING })),
  );
  if (careful.length === 0) return { leaving: nothingLeaving, withheld: noneWithheld, findings: [] };
  const since = new Map(careful.map(({ change: { id } }) => [id, before.since.get(id) ?? nowMs]));
  const withheld = new Map<MarkId, Reason>();
  const findings: Finding[] = [];
  let recheckAfterMs = Number.POSITIVE_INFINITY;
  for (const { change, policy } of careful) {
    const { id, rule } = change;
    const leftMs = (since.get(id) ?? nowMs) + policy.delayMs - nowMs;
    const isDelayed = leftMs > 0;
    if (!isDelayed && !breakers.isFrozen(rule, policy, input)) continue;
    const reason = isDelayed ? reasons.RemovalDelayed : reasons.RemovalsFrozen;
    const message = isDelayed
      ? `${rule} no longer holds; the mark stays for ${policy.delayMs / 1000} s in case it does again`
      : `${rule} no longer holds here and on too many other nodes; the mark stays until that is confirmed`;
    withheld.set(id, reason);
    findings.push({ reason, severity: "info", subject: id, message });
    recheckAfterMs = Math.min(recheckAfterMs, isDelayed ? leftMs : FROZEN_RECHECK_MS);
  }
  return { leaving: { since }, withheld, findings, ...(withheld.size > 0 && { recheckAfterMs }) };
}

const LOSING = ["carrying", "losing"] as const;
const CARRYING = ["carrying"] as const;
const noneWithheld: ReadonlyMap<MarkId, Reason> = new Map();

/** The removal policy of the rule; `undefined` unless this change removes a mark because its inputs disappeared. */
export function policyOf(
  { action, reason, capability, rule }: Pick<Change, "action" | "reason" | "capability" | "rule">,
  policies: ReadonlyMap<string, Policy>,
): RemovalPolicy | undefined {
  if (action !== "remove" || reason !== reasons.InputGone) return undefined;
  return policies.get(capability)?.removals?.get(rule);
}
