/** What is remembered of an object whose pod template is written, while this process lives: what was, and who takes it off. */
import { type EventInput, type ObjectKey, type ReconcileResult, toKeyText } from "@berth/runtime";
import type { Reason } from "../api/reasons.ts";
import { CONTESTED_MS, REVERTS } from "./fights.ts";
import type { EventSink } from "./report.ts";

/**
 * Time in which reverts are counted, ms. Longer than for nodes: what reverts a template looks every few minutes (Argo CD:
 * three), and each round rolls out all of its pods.
 */
export const REVERT_WINDOW_MS = 600_000;
/** The longest that a contested template is left alone at once, ms: doubled each time that it is lost again. */
const MAX_CONTESTED_MS = 3_600_000;
/** How soon a version is looked at again that should be another by now, or soon, ms: it may be on its way. */
export const STALE_MS = 2_000;
/** How soon a write is tried again that the server refuses as such, ms. */
export const REFUSED_MS = 300_000;

/** One thing that is put into a template: a toleration, a label that it selects by. */
export interface Given {
  readonly key?: string;
  readonly value?: string;
}

/** Times are monotonic ms. */
export interface TemplateMemory {
  readonly uid: string;
  /** The version that was written last, and the one that the server answered with. */
  written: { readonly from: string; readonly to: string } | undefined;
  /** The version that the server refused to change. */
  refused: string | undefined;
  /** Reasons of its warnings since the last write: messages differ from look to look. */
  readonly told: Set<Reason>;
  /** What was given, as texts. */
  given: ReadonlySet<string>;
  /** When it was: oldest first, at most `REVERTS`. */
  writes: readonly number[];
  heldUntil: number | undefined;
  /** How often it was contested without a break. */
  contests: number;
}

export function createTemplateMemory(uid: string): TemplateMemory {
  return {
    uid,
    written: undefined,
    refused: undefined,
    told: new Set(),
    given: new Set(),
    writes: [],
    heldUntil: undefined,
    contests: 0,
  };
}

/** One for each object that was asked for, until it is forgotten. What is made anew under the same name begins anew. */
export class TemplateMemories<M extends TemplateMemory> {
  readonly #create: (uid: string) => M;
  readonly #memories = new Map<string, M>();

  constructor(create: (uid: string) => M) {
    this.#create = create;
  }

  of(key: ObjectKey, uid: string): M {
    const text = toKeyText(key);
    const known = this.#memories.get(text);
    if (known?.uid === uid) return known;
    const memory = this.#create(uid);
    this.#memories.set(text, memory);
    return memory;
  }

  forget(key: ObjectKey): void {
    this.#memories.delete(toKeyText(key));
  }
}

/** Is what is read older than what was written? Then the newer version is on its way. */
export function isStale({ written }: TemplateMemory, resourceVersion: string): boolean {
  return written !== undefined && written.from === resourceVersion && written.to !== resourceVersion;
}

/**
 * How long the template is left alone because somebody keeps taking off what is given: after three times, and then each
 * time that it was tried again and lost. `started`: from now on.
 */
export function contestOf(
  memory: TemplateMemory,
  missing: readonly Given[],
  nowMs: number,
): { readonly leftMs: number; readonly started: boolean } | undefined {
  // What was never given was not taken off.
  if (!missing.some((one) => memory.given.has(textOf(one)))) return undefined;
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

export interface TakenWrite {
  readonly from: string;
  readonly to: string;
  readonly given: readonly Given[];
  readonly nowMs: number;
}

/**
 * The server has taken a write. What was never given before begins a new count.
 * @returns when to look again: nothing but an event says so, unless something in the way has undone the write already.
 */
export function noteWritten(
  memory: TemplateMemory,
  { from, to, given, nowMs }: TakenWrite,
): ReconcileResult | undefined {
  const texts = given.map(textOf);
  const isReverted = texts.some((text) => memory.given.has(text));
  memory.writes = isReverted ? [...memory.writes, nowMs].slice(-REVERTS) : [nowMs];
  memory.given = isReverted ? memory.given.union(new Set(texts)) : new Set(texts);
  if (!isReverted) Object.assign(memory, { heldUntil: undefined, contests: 0 });
  memory.written = { from, to };
  memory.refused = undefined;
  memory.told.clear();
  return to === from ? { recheckAfterMs: STALE_MS } : undefined;
}

/** What there is to tell of the object. */
export type Notice = Pick<EventInput, "note" | "type"> & { readonly reason: Reason };

/** A warning once until the next write, anything else each time. */
export function tell(
  { told }: Pick<TemplateMemory, "told">,
  events: EventSink | undefined,
  event: Notice & Omit<EventInput, keyof Notice>,
): void {
  if (event.type === "Warning") {
    if (told.has(event.reason)) return;
    told.add(event.reason);
  }
  events?.record(event);
}

/** `supported-arch=amd64`, `supported-arch` */
export function textOf({ key = "", value }: Given): string {
  return value === undefined ? key : `${key}=${value}`;
}
