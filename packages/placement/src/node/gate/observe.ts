/** From a node and what else is known of the cluster to the cases that `decide.ts` decides: plain data, one per gate. */
import type { Node, Taint } from "@berth/kube";
import type { Instant, NodeView } from "../capability.ts";
import { type MarkId, ownValue, parseMarkId, standingValue } from "../mark.ts";
import type { GateClocks } from "./clocks.ts";
import { type GateCase, type Idleness, isBackfillCandidate } from "./decide.ts";
import { GATES, type Gate, type GateSight, type Gates, type SignalReading } from "./gate.ts";
import { selects } from "./selection.ts";
import { readSignals } from "./signals.ts";
import { type GateState, parseState } from "./state.ts";

/** Where the facts come from. */
export interface GateSources {
  readonly sight: GateSight;
  readonly clocks: GateClocks;
  /** Does the node run pods already? Asked only of nodes that came without the taint. */
  readonly idle: (node: Node, ignoredNamespaces: readonly string[]) => Idleness;
  /** May this gate hold this node again, beside those that it does already? `undefined`: not known yet. */
  readonly mayHoldAgain: (gate: Gate, node: string) => boolean | undefined;
  /** Nodes that are gated when idle however old they are. Default none. */
  readonly backfillAlways?: (node: Node) => boolean;
}

/** The cases of one node, in order of the gates. */
export function observeGates(
  { node, owned }: NodeView,
  { gates }: Gates,
  { sources, now }: { readonly sources: GateSources; readonly now: Instant },
): readonly GateCase[] {
  const holding = new Map<string, Hold>();
  const gateTaints = gates.map(taintOf);
  return gates.map((gate) => {
    const around = { node, owned, sources, now, gateTaints, holding };
    const it = observeGate(gate, around);
    const { standing, state, selected } = it;
    if (selected) holding.set(gate.name, { holds: standing !== undefined, state });
    return it;
  });
}

interface Hold {
  readonly holds: boolean;
  readonly state: GateState | undefined;
}

interface Around extends Pick<NodeView, "node" | "owned"> {
  readonly sources: GateSources;
  readonly now: Instant;
  readonly gateTaints: readonly Taint[];
  /** What the gates before this one do to the node. */
  readonly holding: ReadonlyMap<string, Hold>;
}

function observeGate(gate: Gate, { node, owned, sources, now, gateTaints, holding }: Around): GateCase {
  const { clocks, sight, idle, mayHoldAgain, backfillAlways } = sources;
  const { rule, spec } = gate;
  const selected = selects(gate, node);
  const standing = standingValue(node, gate.taintId);
  const stateText = annotationOf(node, gate.stateId);
  const state = parseState(stateText);
  const ours = ownPlaces(owned, rule);
  const waitsFor = spec.after.filter((name) => holding.get(name)?.holds === true);
  const isHeld = standing !== undefined || ours.has(gate.taintId);
  const isLooked = selected && waitsFor.length === 0 && (isHeld || spec.mode === "Continuous");
  const matters = selected && (isHeld || state !== undefined || spec.mode === "Continuous");
  const boot = matters ? clocks.boot(node, state, now) : { id: "" };
  const readings = isLooked ? readSignals(gate, node, { sight, boot, gateTaints }) : [];
  const times = matters
    ? clocks.look(
        node,
        { rule, heldSince: heldSince(gate, { isHeld, state, holding }), ...summary(readings, isLooked) },
        now,
      )
    : { heldForMs: 0, stableForMs: 0, unknownForMs: 0 };
  const completed = gate.completedId && annotationOf(node, gate.completedId);
  const candidate = { selected, state, standing, completed, isFresh: true };
  const isFresh =
    isBackfillCandidate(candidate) &&
    (clocks.age(node, now) < gate.backfillMs || backfillAlways?.(node) === true);
  const name = node.metadata?.name ?? "";
  return {
    gate,
    selected,
    standing,
    owned: ours,
    state,
    stateText,
    completed,
    cordoned: node.spec?.unschedulable === true,
    waitsFor,
    readings,
    ...times,
    boot,
    get mayHoldAgain() {
      return mayHoldAgain(gate, name);
    },
    idle: isFresh ? idle(node, spec.backfill.ignoredNamespaces) : "unknown",
    isFresh,
    stamp: (key) => clocks.stamp(node, rule, key, now),
  };
}

/** A gate that waits for others begins when the last of them has let go. */
function heldSince(
  { spec }: Gate,
  {
    isHeld,
    state,
    holding,
  }: { readonly isHeld: boolean; readonly state: GateState | undefined; readonly holding: Around["holding"] },
): Instant | undefined {
  if (!isHeld || state?.state !== "held") return undefined;
  const before = spec.after.map((name) => holding.get(name)?.state?.at ?? 0);
  return Math.max(state.at, ...before);
}

function summary(
  readings: readonly SignalReading[],
  isLooked: boolean,
): {
  readonly evidence: string | undefined;
  readonly unknown: boolean;
  readonly holdsSince: Instant | undefined;
} {
  const holds = isLooked && readings.every(({ state }) => state === "holds");
  const since = readings.map((reading) => reading.since).filter((it) => it !== undefined);
  return {
    evidence: holds ? readings.map(({ evidence }) => evidence).join("\n") : undefined,
    unknown: readings.some(({ state }) => state === "unknown"),
    holdsSince: since.length === readings.length ? Math.max(0, ...since) : undefined,
  };
}

function ownPlaces(owned: NodeView["owned"], rule: string): ReadonlySet<MarkId> {
  let places: Set<MarkId> | undefined;
  for (const [id, recorded] of owned) {
    if (recorded.capability === GATES && recorded.rule === rule) (places ??= new Set()).add(id);
  }
  return places ?? none;
}

const none: ReadonlySet<MarkId> = new Set();

function annotationOf(node: Node, id: MarkId): string | undefined {
  return ownValue(node.metadata?.annotations, parseMarkId(id)?.key ?? "");
}

export function taintOf({ spec: { taint } }: Gate): Taint {
  return { key: taint.key, value: taint.value, effect: taint.effect };
}
