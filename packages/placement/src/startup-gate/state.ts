/** The state of a hold, stored on the node itself: the annotation `gate.berth.dev/<name>`. */
import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { annotationId, type MarkId } from "../node/mark.ts";
import { toTimestamp } from "../node/record.ts";

/** Domain of the annotations. The gate's name is the name part of the key, so it has at most 63 characters. */
export const GATE_DOMAIN = "gate.berth.dev";

export function stateId(gate: string): MarkId {
  return annotationId(`${GATE_DOMAIN}/${gate}`);
}

export type HeldReason = "Gated" | "HeldAgain";
export type ReleasedReason = "Released" | "TimedOut" | "ReleasedByHand";

const { Gated, HeldAgain, Released, TimedOut, ReleasedByHand } = reasons;
const heldReasons: readonly HeldReason[] = [Gated, HeldAgain];
const releasedReasons: readonly ReleasedReason[] = [Released, TimedOut, ReleasedByHand];

interface Common {
  /** Start of the hold, or time of the release. Whole seconds. */
  readonly at: Instant;
  /** The boot of the node that this state describes; absent if the node had not reported one. */
  readonly boot?: string;
  /** Containers of earlier boots started before this moment, by the node's clock. Absent: no reboot was seen. */
  readonly bootAt?: Instant;
  /** The note of the person who released the node. */
  readonly note?: string;
}

export type GateState = Common &
  (
    | { readonly state: "held"; readonly why: HeldReason }
    | { readonly state: "released"; readonly why: ReleasedReason }
  );

/** Limits for the text that Berth reads, for a note and for the id of a boot; characters. */
const MAX_TEXT = 4096;
export const MAX_NOTE = 256;
export const MAX_BOOT = 128;

const STATE_PREFIX = `${GATE_DOMAIN}/`;

/** A gate that holds a node, why, and since when. */
interface Hold {
  readonly gate: string;
  readonly why: HeldReason;
  readonly at: Instant;
}

/** By the annotations of the node. */
export function holdsOf({ metadata }: Node): readonly Hold[] {
  return Object.entries(metadata?.annotations ?? {}).flatMap(([key, text]) => {
    const state = key.startsWith(STATE_PREFIX) ? parseState(text) : undefined;
    return state?.state === "held" ? [{ gate: key.slice(STATE_PREFIX.length), ...state }] : [];
  });
}

/** Names of the gates that hold this node again: an index for caches of Nodes. */
export function heldAgainBy(node: Node): readonly string[] {
  return holdsOf(node).flatMap(({ gate, why }) => (why === HeldAgain ? [gate] : []));
}

/** Canonical: equal states give equal texts. `parseState` can read each of them. */
export function stringifyState({ state, at, why, boot, bootAt, note }: GateState): string {
  return JSON.stringify({
    v: 1,
    state,
    at: toTimestamp(at),
    why,
    ...(boot !== undefined && { boot }),
    ...(bootAt !== undefined && { bootAt: toTimestamp(bootAt) }),
    ...(note !== undefined && { note: note.slice(0, MAX_NOTE) }),
  });
}

/** Total: `undefined` for a text that is not Berth's or has a newer version. A later decision may overwrite it. */
export function parseState(text: string | undefined): GateState | undefined {
  if (text === undefined || text.length > MAX_TEXT) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { v, state, at, why, boot, bootAt, note } = value as Readonly<Record<string, unknown>>;
  const atMs = toInstant(at);
  if (v !== 1 || atMs === undefined) return undefined;
  const bootAtMs = toInstant(bootAt);
  const common: Common = {
    at: atMs,
    ...(typeof boot === "string" && boot !== "" && { boot }),
    ...(bootAtMs !== undefined && { bootAt: bootAtMs }),
    ...(typeof note === "string" && { note }),
  };
  const held = heldReasons.find((it) => it === why);
  if (state === "held" && held !== undefined) return { ...common, state, why: held };
  const released = releasedReasons.find((it) => it === why);
  return state === "released" && released !== undefined ? { ...common, state, why: released } : undefined;
}

function toInstant(text: unknown): Instant | undefined {
  const instant = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isNaN(instant) ? undefined : instant;
}

/** Values at the three places of a gate: its taint, its state and the time of the release. */
export interface Places {
  readonly standing: string | undefined;
  readonly stateText: string | undefined;
  readonly completed: string | undefined;
}

/** The dry run of one gate on one node. */
export interface Trial {
  /** Values on the node itself. When another writer changes them, the dry run starts over. */
  readonly real: Places;
  /** Values as if Berth had written every decision since then. */
  places: Places;
}
