import type { Change } from "./change.ts";
import type { MarkId } from "./mark.ts";

/** After this many writes of one place within `WINDOW_MS`, one more needed write counts as a fight. */
export const REVERTS = 3;
/** Berth counts reverts within this time, ms. */
export const WINDOW_MS = 60_000;
/** How long Berth does not write a contested place, ms. Then it writes once; after a revert it waits as long again. */
export const CONTESTED_MS = 300_000;

interface Fight {
  /** When this process last wrote the place: monotonic ms, oldest first, at most `REVERTS`. */
  readonly writes: readonly number[];
  /** The value of the last write; `undefined` after this process removed the value (pruned). */
  readonly value: string | undefined;
  readonly heldUntil?: number;
  /** The other writer of the place, from the last live read. */
  readonly rival?: string;
}

/** The fights on one node. Immutable. Places without recent writes are dropped. */
export type Fights = ReadonlyMap<MarkId, Fight>;

export const noFights: Fights = new Map();

export interface FightAssessment {
  readonly fights: Fights;
  /** Places that Berth must not write now, with the other writer if known. */
  readonly held: ReadonlyMap<MarkId, string | undefined>;
  /** Places held from now on. The caller should now look up the other writer. */
  readonly started: readonly MarkId[];
  readonly recheckAfterMs?: number;
}

/**
 * Finds changes that would continue a fight. If this process wrote a place three times within a minute and must write
 * it again, another writer has reverted it three times.
 */
export function assessFights(fights: Fights, changes: readonly Change[], nowMs: number): FightAssessment {
  if (fights.size === 0) return { fights, held: new Map(), started: [] };
  const next = new Map([...fights].filter(([, fight]) => isRecent(fight, nowMs)));
  const held = new Map<MarkId, string | undefined>();
  const started: MarkId[] = [];
  let until = Number.POSITIVE_INFINITY;
  for (const change of changes) {
    const fight = next.get(change.id);
    // The value is still the one that this process wrote, so this change is no answer to a revert.
    if (fight === undefined || !isContestable(change) || change.before === fight.value) continue;
    const holding = fight.heldUntil !== undefined && nowMs < fight.heldUntil;
    if (!holding && !isLost(fight, nowMs)) continue;
    const heldUntil = holding ? (fight.heldUntil ?? nowMs) : nowMs + CONTESTED_MS;
    if (!holding) started.push(change.id);
    next.set(change.id, { ...fight, heldUntil });
    held.set(change.id, fight.rival);
    until = Math.min(until, heldUntil);
  }
  const recheckAfterMs = Math.max(0, until - nowMs);
  return { fights: next, held, started, ...(held.size > 0 && { recheckAfterMs }) };
}

/**
 * Call after a successful write. The count starts again when Berth removes its mark or replaces its own value, because
 * such a write does not answer a revert.
 */
export function noteWritten(fights: Fights, changes: readonly Change[], nowMs: number): Fights {
  const next = new Map(fights);
  for (const change of changes) {
    if (isContestable(change)) {
      const fight = next.get(change.id);
      const isReverted = fight !== undefined && change.before !== fight.value;
      const writes = isReverted ? [...fight.writes, nowMs].slice(-REVERTS) : [nowMs];
      next.set(change.id, { ...(isReverted && fight), value: change.after, writes });
    } else if (change.action === "remove") next.delete(change.id);
  }
  return next;
}

/** Stores the name of the writer that reverts a place. */
export function nameRival(fights: Fights, id: MarkId, rival: string): Fights {
  const fight = fights.get(id);
  return fight === undefined ? fights : new Map(fights).set(id, { ...fight, rival });
}

/** True for changes that another writer can revert: setting a mark, or pruning an exclusive place. */
function isContestable({ action, entry }: Change): boolean {
  return action === "add" || action === "overwrite" || (action === "remove" && entry === undefined);
}

function isLost({ writes, heldUntil }: Fight, nowMs: number): boolean {
  const last = writes.at(-1) ?? Number.NEGATIVE_INFINITY;
  if (heldUntil !== undefined && last >= heldUntil) return nowMs - last < CONTESTED_MS;
  return writes.filter((at) => at > nowMs - WINDOW_MS).length >= REVERTS;
}

function isRecent({ writes, heldUntil }: Fight, nowMs: number): boolean {
  const last = Math.max(writes.at(-1) ?? 0, heldUntil ?? 0);
  return nowMs - last < (heldUntil === undefined ? WINDOW_MS : CONTESTED_MS);
}
