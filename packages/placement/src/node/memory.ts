import { compareResourceVersions, type Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { Finding } from "./capability.ts";
import type { Change } from "./change.ts";
import { type Fights, noFights } from "./fights.ts";
import type { MarkId } from "./mark.ts";
import { type Leaving, nothingLeaving } from "./removals.ts";

/** A version of the node that is known to exist, and until when to wait for the cache to show it. */
interface AwaitedVersion {
  readonly resourceVersion: string;
  /** False after a conflict: that version itself is the outdated one. */
  readonly inclusive: boolean;
  readonly untilMs: number;
}

interface Refusal {
  readonly action: Change["action"];
  readonly after: string | undefined;
  readonly message: string;
  readonly delayMs: number;
  readonly untilMs: number;
}

/** What the writer remembers of one node, for this uid only. Times are monotonic ms. */
export interface NodeMemory {
  readonly uid: string | undefined;
  /** The ownership record last seen, as it stood. */
  record?: string;
  /** The version of the node without a record for which `record` was found to be still true. */
  verifiedAt?: string;
  awaited?: AwaitedVersion;
  /** Writes in a row that the server refused because of a newer version. */
  conflicts: number;
  fights: Fights;
  leaving: Leaving;
  refusals: ReadonlyMap<MarkId, Refusal>;
  /** Warnings that stand and have been reported. */
  reported: ReadonlySet<string>;
}

/** How long to wait for the cache before deciding on what it has: the patch is guarded, so that is safe. */
const AWAIT_MS = 30_000;
/**
 * The same after the first conflict; it doubles with each further one in a row. Shorter, because there may be nothing
 * to come: an admission plugin or a proxy can answer 409 as well.
 */
const AWAIT_NEWER_MS = 500;
/** How soon to look again meanwhile; normally the informer's own event comes first. */
const AWAIT_RECHECK_MS = 100;

/** First and longest wait before a refused change is tried again unchanged, ms; it doubles. */
const REFUSED_MIN_MS = 30_000;
const REFUSED_MAX_MS = 300_000;

const noRefusals: ReadonlyMap<MarkId, Refusal> = new Map();
const noneReported: ReadonlySet<string> = new Set();

export function createMemory(uid: string | undefined): NodeMemory {
  const nothing = { fights: noFights, leaving: nothingLeaving, refusals: noRefusals, reported: noneReported };
  return { uid, conflicts: 0, ...nothing };
}

/** From now on, do not decide on anything older than `node`: our own write is in it. */
export function awaitWritten(memory: NodeMemory, { metadata }: Node, nowMs: number): void {
  const { resourceVersion } = metadata ?? {};
  memory.conflicts = 0;
  if (resourceVersion) memory.awaited = { resourceVersion, inclusive: true, untilMs: nowMs + AWAIT_MS };
}

/** From now on, do not decide on this version: the server said that there is a newer one. */
export function awaitNewer(memory: NodeMemory, { metadata }: Node, nowMs: number): void {
  const { resourceVersion } = metadata ?? {};
  const untilMs = nowMs + Math.min(AWAIT_MS, AWAIT_NEWER_MS * 2 ** memory.conflicts);
  memory.conflicts += 1;
  if (resourceVersion) memory.awaited = { resourceVersion, inclusive: false, untilMs };
}

/** How long to wait before deciding on this cached version; `undefined` when it is recent enough. */
export function waitBeforeDeciding(memory: NodeMemory, cached: Node, nowMs: number): number | undefined {
  const { awaited } = memory;
  if (awaited === undefined) return undefined;
  const version = cached.metadata?.resourceVersion ?? "";
  const order = compareResourceVersions(version, awaited.resourceVersion);
  // An order that cannot be told: only the very version that was refused is known to be too old.
  const recent =
    order === undefined
      ? awaited.inclusive || version !== awaited.resourceVersion
      : order > 0 || (order === 0 && awaited.inclusive);
  if (recent || nowMs >= awaited.untilMs) {
    delete memory.awaited;
    return undefined;
  }
  return Math.min(AWAIT_RECHECK_MS, awaited.untilMs - nowMs);
}

/** Remembers that the server refused these changes, each waiting twice as long as the time before. */
export function noteRefused(
  memory: NodeMemory,
  changes: readonly Change[],
  { message, nowMs }: { readonly message: string; readonly nowMs: number },
): void {
  const refusals = new Map(memory.refusals);
  for (const { id, action, after } of changes) {
    const delayMs = Math.min(REFUSED_MAX_MS, (refusals.get(id)?.delayMs ?? REFUSED_MIN_MS / 2) * 2);
    refusals.set(id, { action, after, message, delayMs, untilMs: nowMs + delayMs });
  }
  memory.refusals = refusals;
}

export interface RefusalAssessment {
  readonly withheld: ReadonlySet<MarkId>;
  readonly findings: readonly Finding[];
  readonly recheckAfterMs?: number;
}

/** Which changes are the same that the server refused a short time ago. Forgets those no longer asked for. */
export function assessRefusals(
  memory: NodeMemory,
  changes: readonly Change[],
  nowMs: number,
): RefusalAssessment {
  const withheld = new Set<MarkId>();
  const findings: Finding[] = [];
  if (memory.refusals.size === 0) return { withheld, findings };
  const still = new Map<MarkId, Refusal>();
  let untilMs = Number.POSITIVE_INFINITY;
  for (const { id, action, after } of changes) {
    const refusal = memory.refusals.get(id);
    if (refusal === undefined || refusal.action !== action || refusal.after !== after) continue;
    still.set(id, refusal);
    const { message } = refusal;
    findings.push({ reason: reasons.WriteRefused, severity: "warning", subject: id, message });
    if (nowMs >= refusal.untilMs) continue;
    withheld.add(id);
    untilMs = Math.min(untilMs, refusal.untilMs);
  }
  memory.refusals = still.size === 0 ? noRefusals : still;
  return { withheld, findings, ...(withheld.size > 0 && { recheckAfterMs: untilMs - nowMs }) };
}

/** After a successful write: these changes are no longer refused. */
export function noteAccepted(memory: NodeMemory, changes: readonly Change[]): void {
  if (memory.refusals.size === 0) return;
  const accepted = new Set(changes.map(({ id }) => id));
  memory.refusals = new Map([...memory.refusals].filter(([id]) => !accepted.has(id)));
}
