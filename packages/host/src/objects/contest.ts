/** Detects that another client keeps undoing Berth's writes, and pauses them. */

/** Period in which Berth counts repeated writes, ms. Controllers that revert run every few minutes (Argo CD: three). */
export const REVERT_WINDOW_MS = 600_000;
/** After this many equal writes in the period, one more needed write counts as a contest. */
export const REVERTS = 3;
/** First pause on a contested object, ms. Each lost retry doubles it, up to an hour. */
export const CONTESTED_MS = 300_000;
const MAX_CONTESTED_MS = 3_600_000;

/** Plain data. Times are monotonic ms. */
export interface Contest {
  /** The texts of what Berth wrote; see `givenBy`. */
  given: ReadonlySet<string>;
  /** Times of the writes: oldest first, at most `REVERTS`. */
  writes: readonly number[];
  heldUntil: number | undefined;
  contests: number;
}

export function noContest(): Contest {
  return { given: new Set(), writes: [], heldUntil: undefined, contests: 0 };
}

/** The pause that is left; `undefined`: Berth may write. `started`: the pause begins now. */
export function contestOf(
  contest: Contest,
  wanted: readonly string[],
  nowMs: number,
): { readonly leftMs: number; readonly started: boolean } | undefined {
  // Berth never wrote these texts, so no other client removed them.
  if (!wanted.some((one) => contest.given.has(one))) return undefined;
  const { heldUntil, writes } = contest;
  if (heldUntil !== undefined && nowMs < heldUntil) return { leftMs: heldUntil - nowMs, started: false };
  const last = writes.at(-1) ?? Number.NEGATIVE_INFINITY;
  if (nowMs - Math.max(last, heldUntil ?? last) >= REVERT_WINDOW_MS) {
    Object.assign(contest, noContest());
    return undefined;
  }
  const recent = writes.filter((at) => nowMs - at < REVERT_WINDOW_MS);
  if (heldUntil === undefined ? recent.length < REVERTS : last < heldUntil) return undefined;
  const leftMs = Math.min(CONTESTED_MS * 2 ** contest.contests, MAX_CONTESTED_MS);
  contest.heldUntil = nowMs + leftMs;
  contest.contests += 1;
  return { leftMs, started: true };
}

/** Records a successful write. A write with only new texts restarts the count. */
export function noteGiven(contest: Contest, texts: readonly string[], nowMs: number): void {
  const given = new Set(texts);
  if (given.isDisjointFrom(contest.given)) Object.assign(contest, noContest(), { given, writes: [nowMs] });
  else {
    contest.given = contest.given.union(given);
    contest.writes = [...contest.writes, nowMs].slice(-REVERTS);
  }
}
