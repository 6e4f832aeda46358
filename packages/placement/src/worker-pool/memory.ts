/** What is remembered of one pool while this process lives: what was written, and what came of it. */
import { compareResourceVersions } from "@berth/kube";
import { type Reason } from "../api/reasons.ts";
import { CONTESTED_MS, REVERTS, WINDOW_MS } from "../node/fights.ts";

/** Something that the server has taken, as text, and what it answered. */
export interface Applied {
  readonly text: string;
  readonly resourceVersion: string;
  readonly at: number;
  /** Has the cache shown it, or something newer? Then what is missing now was deleted. */
  readonly isSeen: boolean;
}

/** Times are monotonic ms. */
export interface PoolMemory {
  /** Of the pool: another one under its name begins anew. */
  readonly uid: string;
  /** What was applied last. */
  applied: Applied | undefined;
  /** When what was applied had to be applied again, because somebody had changed it: at most `REVERTS`. */
  reverts: readonly number[];
  heldUntil: number | undefined;
  /** What the server refused, on which version of the Deployment. */
  refused: { readonly text: string; readonly generation: number; readonly until: number } | undefined;
  /** The status that was written last. */
  reported: { readonly replicas: number; readonly resourceVersion: string } | undefined;
  /** Reasons of its Events since the last write. */
  readonly told: Set<Reason>;
}

export function createPoolMemory(uid: string): PoolMemory {
  return {
    uid,
    applied: undefined,
    reverts: [],
    heldUntil: undefined,
    refused: undefined,
    reported: undefined,
    told: new Set(),
  };
}

/** Is this version older than one that the server has answered with? */
export function isOlder(seen: string | undefined, written: string): boolean {
  return seen !== undefined && (compareResourceVersions(seen, written) ?? 0) < 0;
}

/** Has the cache still to show what was applied? `seen`: the version that it shows now. Call with each one. */
export function isAwaited(memory: PoolMemory, seen: string | undefined): boolean {
  const { applied } = memory;
  if (applied === undefined || applied.isSeen) return false;
  if (seen === undefined || isOlder(seen, applied.resourceVersion)) return true;
  memory.applied = { ...applied, isSeen: true };
  return false;
}

/**
 * How long the Deployment is left alone because somebody keeps changing it back: after three times within a minute, and
 * then each time that it was tried again and lost. `started`: from now on.
 */
export function contestOf(
  memory: PoolMemory,
  text: string,
  nowMs: number,
): { readonly leftMs: number; readonly started: boolean } | undefined {
  const { applied } = memory;
  // What was never applied was not changed back.
  if (applied?.text !== text) return undefined;
  // Neither was what stood for so long.
  if (nowMs - Math.max(applied.at, memory.heldUntil ?? applied.at) >= CONTESTED_MS) {
    Object.assign(memory, { reverts: [], heldUntil: undefined });
    return undefined;
  }
  const { heldUntil, reverts } = memory;
  if (heldUntil !== undefined && nowMs < heldUntil) return { leftMs: heldUntil - nowMs, started: false };
  const recent = reverts.filter((at) => nowMs - at < WINDOW_MS);
  if (heldUntil === undefined ? recent.length < REVERTS : applied.at < heldUntil) return undefined;
  memory.heldUntil = nowMs + CONTESTED_MS;
  return { leftMs: CONTESTED_MS, started: true };
}

/** The server has taken this. `isRevert`: it was there before, and changed by somebody. */
export function noteApplied(
  memory: PoolMemory,
  written: Applied,
  { isRevert }: { readonly isRevert: boolean },
): void {
  const isSame = memory.applied?.text === written.text;
  if (!isSame) Object.assign(memory, { reverts: [], heldUntil: undefined });
  if (isSame && isRevert) memory.reverts = [...memory.reverts, written.at].slice(-REVERTS);
  memory.applied = written;
  memory.refused = undefined;
}
