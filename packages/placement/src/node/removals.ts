/** Removals that may have to wait: because a rule sets a delay, or because too many nodes would lose its marks. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { RemovalBreakers, Times } from "./breaker.ts";
import type { Finding, Policy, RemovalPolicy } from "./capability.ts";
import type { Change } from "./change.ts";
import type { MarkId } from "./mark.ts";
import type { RecordedMark } from "./record.ts";

/** What is remembered of one node. Immutable. */
export interface Leaving {
  /** Marks whose inputs vanished, with since when: monotonic ms. */
  readonly since: ReadonlyMap<MarkId, number>;
  /** Rules of which the node was counted as carrying, and as losing, a mark. */
  readonly carried: ReadonlySet<string>;
  readonly lost: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();
export const nothingLeaving: Leaving = Object.freeze({ since: new Map(), carried: none, lost: none });

export interface RemovalInput extends Times {
  readonly node: string;
  readonly owned: ReadonlyMap<MarkId, RecordedMark>;
  readonly changes: readonly Change[];
  readonly policies: ReadonlyMap<string, Policy>;
  readonly breakers: RemovalBreakers;
}

export interface RemovalAssessment {
  readonly leaving: Leaving;
  /** Removals that wait, with why. */
  readonly withheld: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  readonly recheckAfterMs?: number;
}

/** How soon to look again at removals that are frozen, for the breaker has no event of its own. Milliseconds. */
const FROZEN_RECHECK_MS = 30_000;

/** Decides which removals wait. Counts the node in the breakers of the rules concerned. */
export function assessRemovals(before: Leaving, input: RemovalInput): RemovalAssessment {
  const { changes, nowMs } = input;
  const careful = changes.flatMap((change) => {
    const policy = policyOf(change, input.policies);
    return policy === undefined ? [] : [{ change, policy }];
  });
  const leaving = count(
    before,
    careful.map(({ change }) => change.rule),
    input,
  );
  if (careful.length === 0) return { leaving, withheld: noneWithheld, findings: [] };
  const since = new Map(careful.map(({ change: { id } }) => [id, before.since.get(id) ?? nowMs]));
  const withheld = new Map<MarkId, Reason>();
  const findings: Finding[] = [];
  let recheckAfterMs = Number.POSITIVE_INFINITY;
  for (const { change, policy } of careful) {
    const { id, rule } = change;
    const leftMs = (since.get(id) ?? nowMs) + policy.delayMs - nowMs;
    if (leftMs > 0) {
      withheld.set(id, reasons.RemovalDelayed);
      recheckAfterMs = Math.min(recheckAfterMs, leftMs);
      const message = `${rule} no longer holds; the mark stays for ${policy.delayMs / 1000} s in case it does again`;
      findings.push({ reason: reasons.RemovalDelayed, severity: "info", subject: id, message });
    } else if (input.breakers.isFrozen(rule, policy, input)) {
      withheld.set(id, reasons.RemovalsFrozen);
      recheckAfterMs = Math.min(recheckAfterMs, FROZEN_RECHECK_MS);
      const message = `${rule} no longer holds here and on too many other nodes; the mark stays until that is confirmed`;
      findings.push({ reason: reasons.RemovalsFrozen, severity: "info", subject: id, message });
    }
  }
  const result = { leaving: { ...leaving, since }, withheld, findings };
  return withheld.size === 0 ? result : { ...result, recheckAfterMs };
}

const noneWithheld: ReadonlyMap<MarkId, Reason> = new Map();

/** The care that the rule asks for, when this change is a removal because its inputs vanished. */
export function policyOf(
  { action, reason, capability, rule }: Pick<Change, "action" | "reason" | "capability" | "rule">,
  policies: ReadonlyMap<string, Policy>,
): RemovalPolicy | undefined {
  if (action !== "remove" || reason !== reasons.InputGone) return undefined;
  return policies.get(capability)?.removals?.get(rule);
}

/** Keeps the breakers in step with this node: only differences to the time before cost anything. */
function count(
  before: Leaving,
  losing: readonly string[],
  { node, owned, policies, breakers }: RemovalInput,
): Leaving {
  const carried = carriedRules(owned, policies);
  const lost = losing.length === 0 ? none : new Set(losing);
  for (const rule of before.carried) if (!carried.has(rule)) breakers.carries({ node, rule }, false);
  for (const rule of carried) if (!before.carried.has(rule)) breakers.carries({ node, rule }, true);
  for (const rule of before.lost) if (!lost.has(rule)) breakers.loses({ node, rule }, false);
  for (const rule of lost) if (!before.lost.has(rule)) breakers.loses({ node, rule }, true);
  if (carried.size + lost.size === 0) return nothingLeaving;
  return { since: nothingLeaving.since, carried, lost };
}

function carriedRules(
  owned: ReadonlyMap<MarkId, RecordedMark>,
  policies: ReadonlyMap<string, Policy>,
): ReadonlySet<string> {
  let carried: Set<string> | undefined;
  for (const { capability, rule } of owned.values()) {
    if (policies.get(capability)?.removals?.has(rule) === true) (carried ??= new Set()).add(rule);
  }
  return carried ?? none;
}

/** After a write: these removals were made. */
export function noteRemoved(
  changes: readonly Change[],
  { node, policies, breakers, nowMs }: Pick<RemovalInput, "node" | "policies" | "breakers" | "nowMs">,
): void {
  for (const change of changes) {
    if (policyOf(change, policies) !== undefined) breakers.lost({ node, rule: change.rule }, nowMs);
  }
}

/** The node is gone. */
export function forgetLeaving({ carried, lost }: Leaving, node: string, breakers: RemovalBreakers): void {
  for (const rule of carried) breakers.carries({ node, rule }, false);
  for (const rule of lost) breakers.loses({ node, rule }, false);
}
