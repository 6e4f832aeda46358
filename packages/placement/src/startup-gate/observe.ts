/** Collects the cases that `decide.ts` decides from a node and the cluster: plain data, one per gate. */
import type { Node, Taint } from "@berth/kube";
import { isSameData } from "@berth/runtime";
import { whyGoing } from "../api/autoscaler.ts";
import type { Instant, NodeView } from "../node/capability.ts";
import type { Note, Trace } from "../node/explain/trace.ts";
import { type MarkId, ownValue, parseMarkId, standingValue } from "../node/mark.ts";
import { matchesSelector } from "../node/selector.ts";
import type { GateClocks, Look } from "./clocks.ts";
import { ownPlaces } from "./compile.ts";
import { type GateCase, type Idleness, isBackfillCandidate, isHeld } from "./decide.ts";
import { GATES, type Gate, type GateObservations, type Gates, type SignalReading } from "./gate.ts";
import { isGatedAtCreation, selects } from "./selection.ts";
import { readSignals } from "./signals.ts";
import { type GateState, type Places, parseState, type Trial } from "./state.ts";
import { taintOf } from "./tolerate.ts";
import { beginTrial, MIN_YOUNG_MS, placesOnTrial } from "./trial.ts";

/** Where the facts come from. */
export interface GateSources {
  readonly observations: GateObservations;
  readonly clocks: GateClocks;
  /** Does the node run pods already? Asked only of nodes that came without the taint. */
  readonly idle: (node: Node, ignoredNamespaces: readonly string[]) => Idleness;
  /** May this gate hold this node again, besides those that it holds again already? `undefined`: unknown so far. */
  readonly mayHoldAgain: (gate: Gate, node: string) => boolean | undefined;
  /** Nodes that a gate holds when idle, at any age. Default none. */
  readonly backfillAlways?: (node: Node) => boolean;
}

/** The cases of one node, in order of the gates. */
export function observeGates(
  { node, owned, trace }: NodeView,
  { gates }: Gates,
  { sources, now }: { readonly sources: GateSources; readonly now: Instant },
): readonly GateCase[] {
  const holding = new Map<string, Hold>();
  return gates.map((gate) => {
    const note = trace?.for(gate.rule, "selection");
    const around = { node, owned, note, sources, now, gateTaints: taintsBeside(gate, gates), holding };
    const it = observeGate(gate, around);
    if (trace !== undefined) noteSignals(it, trace);
    // Count a node that may still get the taint as held: later gates must not act before this one.
    const mayHold = isBackfillCandidate(it) && (it.idle === "unknown" || it.idle.idle);
    if (it.selected) holding.set(gate.name, { gate, state: it.state, holds: isHeld(it) || mayHold });
    return it;
  });
}

function noteSignals({ gate: { rule }, readings, waitsFor }: GateCase, trace: Trace): void {
  const note = trace.for(rule, "signals");
  for (const name of waitsFor) note?.({ what: `gate ${name} has let the node go`, holds: false });
  for (const { signal, state, message } of readings)
    note?.({ what: signal, value: message, holds: state === "unknown" ? state : state === "holds" });
}

type Hold = Pick<GateCase, "gate" | "state"> & { readonly holds: boolean };

interface Around extends Pick<NodeView, "node" | "owned"> {
  readonly note: Note | undefined;
  readonly sources: GateSources;
  readonly now: Instant;
  readonly gateTaints: readonly Taint[];
  /** Holds of the gates before this one, by gate name. */
  readonly holding: ReadonlyMap<string, Hold>;
}

function observeGate(gate: Gate, { node, owned, note, sources, now, gateTaints, holding }: Around): GateCase {
  const { clocks, observations, idle, mayHoldAgain, backfillAlways } = sources;
  const { rule, spec } = gate;
  const selected = selects(gate, node, note);
  const real = realPlaces(gate, node);
  const trial = spec.dryRun && selected ? trialOf(gate, real, { node, sources, now }) : undefined;
  const { standing, stateText, completed } = trial?.places ?? real;
  const state = parseState(stateText);
  const ours = trial === undefined ? ownPlaces(owned, gate) : placesOnTrial(gate, trial.places);
  const before = spec.after
    .flatMap((name) => holding.get(name) ?? [])
    // Only a gate in dry run waits for another gate in dry run.
    .filter((hold) => spec.dryRun || !hold.gate.spec.dryRun);
  const waitsFor = before.filter(({ holds }) => holds).map((hold) => hold.gate.name);
  const held = isHeld({ gate, standing, owned: ours, state });
  const isLooked = selected && waitsFor.length === 0 && (held || spec.mode === "Continuous");
  const candidate = { selected, state, standing, completed, isFresh: true };
  const isFresh =
    isBackfillCandidate(candidate) &&
    (clocks.age(node, now) < gate.backfillMs || backfillAlways?.(node) === true);
  const matters = selected && (held || state !== undefined || spec.mode === "Continuous" || isFresh);
  const boot = matters ? clocks.boot(node, state, now) : { id: "" };
  // Also read the signals of a node that the gate is about to hold: its findings name them.
  const isAsked = isLooked || (isFresh && waitsFor.length === 0);
  const readings = isAsked ? readSignals(gate, node, { observations, boot, gateTaints }) : [];
  const look = {
    rule,
    held: held && waitsFor.length === 0,
    heldSince: heldSince(state, before),
    ...summary(isLooked ? readings : [], isLooked),
  };
  const times = matters ? clocks.look(node, look, now) : clocks.rest(node, rule);
  const name = node.metadata?.name ?? "";
  const cordoner = owned.get("unschedulable");
  return {
    gate,
    selected,
    // A new node may lack its control-plane label: kubeadm labels nodes after they have joined.
    isSpared: !selected && matchesSelector(spec.nodeSelector, node.metadata?.labels),
    isGoing: whyGoing(node) !== undefined,
    standing,
    owned: ours,
    state,
    stateText,
    completed,
    cordoned: node.spec?.unschedulable === true,
    cordonedBy: cordoner?.capability === GATES ? cordoner.rule : undefined,
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
    ...(trial !== undefined && { trial }),
  };
}

function realPlaces(gate: Gate, node: Node): Places {
  return {
    standing: standingValue(node, gate.taintId),
    stateText: annotationOf(node, gate.stateId),
    completed: gate.completedId && annotationOf(node, gate.completedId),
  };
}

function trialOf(
  gate: Gate,
  real: Places,
  { node, sources: { clocks }, now }: Pick<Around, "node" | "sources" | "now">,
): Trial {
  return clocks.trial(node, gate.rule, now, (current) => {
    if (current !== undefined && isSameData(current.real, real)) return current;
    const youngMs = Math.max(gate.backfillMs, MIN_YOUNG_MS);
    return beginTrial(gate, real, isGatedAtCreation(gate, node) && clocks.age(node, now) < youngMs);
  });
}

/** The taints that a node may have while this gate holds it. No gate in dry run puts its taint on a node. */
function taintsBeside({ spec, rule }: Gate, gates: readonly Gate[]): readonly Taint[] {
  return gates.filter((it) => spec.dryRun || it.rule === rule || !it.spec.dryRun).map(taintOf);
}

/** Reads the signals of a gate on a node now, and remembers nothing. */
export function readingsOf(
  gate: Gate,
  node: Node,
  { gates, sources }: { readonly gates: readonly Gate[]; readonly sources: GateSources },
): readonly SignalReading[] {
  const { observations, clocks } = sources;
  const boot = clocks.bootOf(node, parseState(annotationOf(node, gate.stateId)));
  return readSignals(gate, node, { observations, boot, gateTaints: taintsBeside(gate, gates) });
}

/** If the gate waits for others, its hold begins when the last of them has released the node. */
function heldSince(state: GateState | undefined, before: readonly Hold[]): Instant | undefined {
  if (state?.state !== "held") return undefined;
  return Math.max(state.at, ...before.map((hold) => hold.state?.at ?? 0));
}

function summary(
  readings: readonly SignalReading[],
  isLooked: boolean,
): Pick<Look, "evidence" | "unknown" | "holdsSince"> {
  const holds = isLooked && readings.every(({ state }) => state === "holds");
  const since = readings.map((reading) => reading.since).filter((it) => it !== undefined);
  return {
    // With the names: an edited gate has other signals, even if their evidence is the same.
    evidence: holds ? readings.map(({ signal, evidence }) => `${signal} ${evidence}`).join("\n") : undefined,
    unknown: readings.some(({ state }) => state === "unknown"),
    holdsSince: since.length === readings.length ? Math.max(0, ...since) : undefined,
  };
}

function annotationOf(node: Node, id: MarkId): string | undefined {
  return ownValue(node.metadata?.annotations, parseMarkId(id)?.key ?? "");
}
