import { compareResourceVersions, type Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { Finding } from "./capability.ts";
import type { Change } from "./change.ts";
import { type Fights, noFights } from "./fights.ts";
import type { MarkId } from "./mark.ts";
import { type Leaving, nothingLeaving } from "./removals.ts";

/** A known version of the node, and how long to wait until the cache shows it. */
interface AwaitedVersion {
  readonly resourceVersion: string;
  /** False after a conflict: then this version is outdated, and Berth waits for a newer one. */
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

/** The state that the writer keeps for one node with this uid. Times are monotonic ms. */
export interface NodeMemory {
  readonly uid: string | undefined;
  /** The text of the last ownership record on the node. */
  record?: string;
  /** The resourceVersion without a record at which Berth last checked `record` by a live read. */
  verifiedAt?: string;
  awaited?: AwaitedVersion;
  /** Consecutive writes that the API server refused because of a newer version. */
  conflicts: number;
  fights: Fights;
  leaving: Leaving;
  refusals: ReadonlyMap<MarkId, Refusal>;
  /** Present warnings that have been reported. */
  reported: ReadonlySet<string>;
}

/** The longest wait for the cache. A decision on an old version is safe, because the patch has a resourceVersion. */
const AWAIT_MS = 30_000;
/**
 * The wait after the first conflict. It doubles with each consecutive conflict. It is shorter because an admission
 * plugin or a proxy can also answer 409, and then no newer version exists.
 */
const AWAIT_NEWER_MS = 500;
/** The time between checks during the wait. Normally an event from the informer comes first. */
const AWAIT_RECHECK_MS = 100;

/** The first and the longest wait before a refused change is sent again, ms. The wait doubles each time. */
const REFUSED_MIN_MS = 30_000;
const REFUSED_MAX_MS = 300_000;

const noRefusals: ReadonlyMap<MarkId, Refusal> = new Map();
const noneReported: ReadonlySet<string> = new Set();

export function createMemory(uid: string | undefined): NodeMemory {
  const nothing = { fights: noFights, leaving: nothingLeaving, refusals: noRefusals, reported: noneReported };
  return { uid, conflicts: 0, ...nothing };
}

/** After a write: do not decide on a version older than `node`, which contains that write. */
export function awaitWritten(memory: NodeMemory, { metadata }: Node, nowMs: number): void {
  const { resourceVersion } = metadata ?? {};
  memory.conflicts = 0;
  if (resourceVersion) memory.awaited = { resourceVersion, inclusive: true, untilMs: nowMs + AWAIT_MS };
}

/** After a conflict: do not decide on this version, because the API server has a newer one. */
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
  // If the versions cannot be compared, only the refused version itself is known to be too old.
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

/** Records that the API server refused these changes. Each waits twice as long as the last time. */
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

/** Finds changes that the API server refused recently. Drops refusals of changes that are no longer wanted. */
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

/** After a successful write: drops the refusals of these changes. */
export function noteAccepted(memory: NodeMemory, changes: readonly Change[]): void {
  if (memory.refusals.size === 0) return;
  const accepted = new Set(changes.map(({ id }) => id));
  memory.refusals = new Map([...memory.refusals].filter(([id]) => !accepted.has(id)));
}
