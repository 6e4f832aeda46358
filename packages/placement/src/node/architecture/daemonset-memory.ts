/** What is remembered of one DaemonSet while this process lives: what was written, and who takes it off again. */
import type { Toleration } from "@berth/kube";
import type { Reason } from "../../api/reasons.ts";
import { CONTESTED_MS, REVERTS } from "../fights.ts";

/**
 * Time in which reverts are counted, ms. Longer than for nodes: what reverts a DaemonSet looks every few minutes (Argo CD:
 * three), and each round rolls out all of its pods.
 */
export const REVERT_WINDOW_MS = 600_000;
/** The longest that a contested DaemonSet is left alone at once, ms: doubled each time that it is lost again. */
export const MAX_CONTESTED_MS = 3_600_000;

/** Times are monotonic ms, but for `heldSince`. */
export interface DaemonSetMemory {
  readonly uid: string;
  /** Since when its images are waited for, by the wall clock, and which: others are waited for anew. */
  heldSince: number | undefined;
  images: string;
  /** The version that was patched last, and the one that the server answered with. */
  patched: { readonly from: string; readonly to: string } | undefined;
  /** The version that the server refused to change. */
  refused: string | undefined;
  /** Reasons of its Events since the last patch: messages of registries differ from look to look. */
  readonly told: Set<Reason>;
  /** The tolerations that were written, as texts. */
  given: ReadonlySet<string>;
  /** When they were: oldest first, at most `REVERTS`. */
  writes: readonly number[];
  heldUntil: number | undefined;
  /** How often it was contested without a break. */
  contests: number;
}

export function createDaemonSetMemory(uid: string): DaemonSetMemory {
  return {
    uid,
    heldSince: undefined,
    images: "",
    patched: undefined,
    refused: undefined,
    told: new Set(),
    given: new Set(),
    writes: [],
    heldUntil: undefined,
    contests: 0,
  };
}

/** Is what is read older than what was written? Then the newer version is on its way. */
export function isStale({ patched }: DaemonSetMemory, resourceVersion: string): boolean {
  return patched !== undefined && patched.from === resourceVersion && patched.to !== resourceVersion;
}

/**
 * How long the template is left alone because somebody keeps taking the tolerations off: after three times, and then each
 * time that it was tried again and lost. `started`: from now on.
 */
export function contestOf(
  memory: DaemonSetMemory,
  missing: readonly Toleration[],
  nowMs: number,
): { readonly leftMs: number; readonly started: boolean } | undefined {
  // What was never given was not taken off.
  if (!missing.some((toleration) => memory.given.has(textOf(toleration)))) return undefined;
  const { heldUntil, writes } = memory;
  if (heldUntil !== undefined && nowMs < heldUntil) return { leftMs: heldUntil - nowMs, started: false };
  const last = writes.at(-1) ?? Number.NEGATIVE_INFINITY;
  if (nowMs - Math.max(last, heldUntil ?? last) >= REVERT_WINDOW_MS) {
    Object.assign(memory, { writes: [], heldUntil: undefined, contests: 0 });
    return undefined;
  }
  const recent = writes.filter((at) => nowMs - at < REVERT_WINDOW_MS);
  if (heldUntil === undefined ? recent.length < REVERTS : last < heldUntil) return undefined;
  const leftMs = Math.min(CONTESTED_MS * 2 ** memory.contests, MAX_CONTESTED_MS);
  memory.heldUntil = nowMs + leftMs;
  memory.contests += 1;
  return { leftMs, started: true };
}

/** The server has taken these. What was never given before begins a new count. */
export function noteWritten(memory: DaemonSetMemory, written: readonly Toleration[], nowMs: number): void {
  const texts = written.map(textOf);
  const isReverted = texts.some((text) => memory.given.has(text));
  memory.writes = isReverted ? [...memory.writes, nowMs].slice(-REVERTS) : [nowMs];
  memory.given = isReverted ? memory.given.union(new Set(texts)) : new Set(texts);
  if (!isReverted) Object.assign(memory, { heldUntil: undefined, contests: 0 });
}

/** `supported-arch=amd64`, `supported-arch` */
export function textOf({ key = "", value }: Toleration): string {
  return value === undefined ? key : `${key}=${value}`;
}
