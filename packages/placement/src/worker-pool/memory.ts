/** What is remembered of one pool while this process lives: what was written, and what came of it. */
import { compareResourceVersions } from "@berth/kube";
import { createTemplateMemory, noteWritten, type TemplateMemory } from "../node/template-memory.ts";

/** Of the pool, and of the template of its Deployment. What was given is all that was applied, as one text. */
export interface PoolMemory extends TemplateMemory {
  /** Has the cache shown what was applied, or something newer? Then what is missing now was deleted. */
  isSeen: boolean;
  /** When what is `refused` is tried again: monotonic ms. */
  retryAt: number;
  /** The status that was written last. */
  reported: { readonly text: string; readonly resourceVersion: string } | undefined;
}

export function createPoolMemory(uid: string): PoolMemory {
  return { ...createTemplateMemory(uid), isSeen: true, retryAt: 0, reported: undefined };
}

/** Is this version older than one that the server has answered with? */
export function isOlder(seen: string | undefined, written: string): boolean {
  return seen !== undefined && (compareResourceVersions(seen, written) ?? 0) < 0;
}

/** Has the cache still to show what was applied? `seen`: the version that it shows now. Call with each one. */
export function isAwaited(memory: PoolMemory, seen: string | undefined): boolean {
  const { written } = memory;
  if (written === undefined || memory.isSeen) return false;
  if (seen === undefined || isOlder(seen, written.to)) return true;
  memory.isSeen = true;
  return false;
}

export interface AppliedText {
  readonly text: string;
  /** The version of the Deployment that it was applied to; `undefined`: there was none. */
  readonly from: string | undefined;
  readonly to: string;
  readonly nowMs: number;
}

/**
 * The server has taken this. Of a Deployment that is new nobody has changed anything yet: it begins a new count.
 * @returns when to look again, if no event will say so.
 */
export function noteApplied(
  memory: PoolMemory,
  { text, from, to, nowMs }: AppliedText,
): ReturnType<typeof noteWritten> {
  if (from === undefined) memory.given = new Set();
  memory.isSeen = false;
  return noteWritten(memory, { from: from ?? "", to, given: [{ key: text }], nowMs });
}
