/** Who keeps undoing what is written: found out, and left alone for a while. */

/** Times in which reverts are counted, ms: what reverts an object looks every few minutes (Argo CD: three). */
export const REVERT_WINDOW_MS = 600_000;
/** Writes of the same within that time after which the next need counts as a fight. */
export const REVERTS = 3;
/** How long a contested object is left alone, ms: doubled each time that it is lost again, up to an hour. */
export const CONTESTED_MS = 300_000;
const MAX_CONTESTED_MS = 3_600_000;

/** Plain data. Times are monotonic ms. */
export interface Contest {
  /** What was given, as texts. */
  given: ReadonlySet<string>;
  /** When it was: oldest first, at most `REVERTS`. */
  writes: readonly number[];
  heldUntil: number | undefined;
  /** How often it was contested without a break. */
  contests: number;
}

export function noContest(): Contest {
  return { given: new Set(), writes: [], heldUntil: undefined, contests: 0 };
}

/** How long to write nothing, after three times and then each time that it was tried again and lost. `started`: from now on. */
export function contestOf(
  contest: Contest,
  wanted: readonly string[],
  nowMs: number,
): { readonly leftMs: number; readonly started: boolean } | undefined {
  // What was never given was not taken off.
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

/** The server has taken it. What was never given before begins a new count. */
export function noteGiven(contest: Contest, texts: readonly string[], nowMs: number): void {
  const given = new Set(texts);
  if (given.isDisjointFrom(contest.given)) Object.assign(contest, noContest(), { given, writes: [nowMs] });
  else {
    contest.given = contest.given.union(given);
    contest.writes = [...contest.writes, nowMs].slice(-REVERTS);
  }
}
