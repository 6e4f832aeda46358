import type { Change } from "./change.ts";
import type { MarkId } from "./mark.ts";

/** Writes of one place within `WINDOW_MS` after which the next need to write it counts as a fight. */
export const REVERTS = 3;
/** Time in which the reverts are counted, ms. */
export const WINDOW_MS = 60_000;
/** How long a contested place is left alone, ms. Then it is tried once; lost again, it is left as long again. */
export const CONTESTED_MS = 300_000;

interface Fight {
  /** When this process last wrote the place: monotonic ms, oldest first, at most `REVERTS`. */
  readonly writes: readonly number[];
  /** What it wrote last; `undefined` after it was pruned. */
  readonly value: string | undefined;
  readonly heldUntil?: number;
  /** Who wrote it besides us, when last asked. */
  readonly rival?: string;
}

/** What is remembered of one node. Immutable; places without recent writes are dropped. */
export type Fights = ReadonlyMap<MarkId, Fight>;

export const noFights: Fights = new Map();

export interface FightAssessment {
  readonly fights: Fights;
  /** Places to leave alone now, with the rival if known. */
  readonly held: ReadonlyMap<MarkId, string | undefined>;
  /** The ones held from now on: the moment to find out who the rival is. */
  readonly started: readonly MarkId[];
  readonly recheckAfterMs?: number;
}

/**
 * Decides which of the changes would only go on with a fight: a place that this process wrote three times within a
 * minute and that needs writing again was reverted three times.
 */
export function assessFights(fights: Fights, changes: readonly Change[], nowMs: number): FightAssessment {
  if (fights.size === 0) return { fights, held: new Map(), started: [] };
  const next = new Map([...fights].filter(([, fight]) => isRecent(fight, nowMs)));
  const held = new Map<MarkId, string | undefined>();
  const started: MarkId[] = [];
  let until = Number.POSITIVE_INFINITY;
  for (const change of changes) {
    const fight = next.get(change.id);
    // What stands is what we wrote: nobody has reverted it, we want something else now.
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
 * After a successful write. A removal of our own ends the counting, and so does replacing what we had written ourselves:
 * what follows is a new wish, not a revert.
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

/** Remembers who reverts a place. */
export function nameRival(fights: Fights, id: MarkId, rival: string): Fights {
  const fight = fights.get(id);
  return fight === undefined ? fights : new Map(fights).set(id, { ...fight, rival });
}

/** Setting a mark, or pruning a place that is exclusive: what somebody else can undo. */
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
