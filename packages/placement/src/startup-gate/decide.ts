/** Decides the marks of one gate on one node. Pure: it follows the table in README.md, row by row. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { Finding, Instant } from "../node/capability.ts";
import type { Mark, MarkId } from "../node/mark.ts";
import type { Boot, Gate, SignalReading } from "./gate.ts";
import { type GateState, type HeldReason, type ReleasedReason, stringifyState, type Trial } from "./state.ts";

/** The known facts about one node and one gate. */
export interface GateCase {
  readonly gate: Gate;
  readonly selected: boolean;
  /** The gate does not select the node, only because the node belongs to the control plane. */
  readonly isSpared: boolean;
  /** The node is about to be deleted: the signals that it loses, and its time, do not matter. */
  readonly isGoing: boolean;
  /** The value of the gate's taint on the node. */
  readonly standing: string | undefined;
  /** Places of the gate that are recorded as Berth's, also under the name of an earlier gate. */
  readonly owned: ReadonlySet<MarkId>;
  readonly state: GateState | undefined;
  /** Text of the state annotation, and below it that of the release annotation. */
  readonly stateText: string | undefined;
  readonly completed: string | undefined;
  /** The node is unschedulable, whichever actor made it so. */
  readonly cordoned: boolean;
  /** Rule of the gate, this one or another, that is recorded as having cordoned the node. */
  readonly cordonedBy: string | undefined;
  /** Gates before this one that hold the node. */
  readonly waitsFor: readonly string[];
  /** Empty when nothing depends on them. */
  readonly readings: readonly SignalReading[];
  readonly heldForMs: number;
  readonly stableForMs: number;
  readonly unknownForMs: number;
  readonly boot: Boot;
  /** May the gate hold another node again at present? `undefined` until every node has been observed. */
  readonly mayHoldAgain: boolean | undefined;
  /** Read only for a backfill candidate. */
  readonly idle: Idleness;
  /** The node is within the backfill window, or `backfillAlways` accepts it at any age. */
  readonly isFresh: boolean;
  /** Time of the first decision with this key; see `GateClocks.stamp`. */
  readonly stamp: (key: string) => Instant;
  /** Only for a gate in dry run. The case then assumes that all earlier decisions were written. */
  readonly trial?: Trial;
}

export type Idleness = "unknown" | { readonly idle: true } | { readonly idle: false; readonly pod: string };

/** State of a node under a gate. In a dry run: `WouldHold` without the taint, `WouldRelease` with it. */
export type GatePhase =
  | "NotSelected"
  | "Open"
  | "Held"
  | "HeldAgain"
  | "TimedOut"
  | "TimedOutAgain"
  | "WouldHold"
  | "WouldRelease";

/** Does the gate want the node to be held? */
export function isWanted(phase: GatePhase): boolean {
  return phase !== "NotSelected" && phase !== "Open" && phase !== "WouldRelease";
}

export interface GateVerdict {
  readonly phase: GatePhase;
  /** Why the gate holds the node, or has released it. */
  readonly reason: Reason;
  readonly marks: readonly Mark[];
  readonly keep: ReadonlyMap<MarkId, Reason>;
  readonly removals: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  readonly recheckAfterMs?: number;
}

/** Unknown signals delay a timeout for this long. Berth reads them within moments of a start, or never. */
const UNKNOWN_LIMIT_MS = 30_000;
/** Delay before the next check: short until every node is observed, longer where a whole fleet may wait. */
const PENDING_RECHECK_MS = 1000;
const SLOW_RECHECK_MS = 10_000;

export function decideGate(it: GateCase): GateVerdict {
  const { gate, selected, standing, owned } = it;
  if (!selected) return decideNotSelected(it);
  if (!isHeld(it)) return decideOpen(it);
  // The taint is recorded but not on the node: another actor has removed it.
  const isTakenOff = standing === undefined && owned.has(gate.taintId);
  return isTakenOff && gate.spec.taintRemoved === "Release"
    ? release(it, reasons.ReleasedByHand)
    : decideHeld(it);
}

/**
 * Held by the taint, by the record, or by the state alone. The state alone counts if the taint could not be set with
 * it, or if the gate has another taint now.
 */
export function isHeld(it: Pick<GateCase, "gate" | "standing" | "owned" | "state">): boolean {
  return it.standing !== undefined || it.owned.has(it.gate.taintId) || it.state?.state === "held";
}

/** Removes Berth's own marks only. Others may have set the taint for another purpose, or before the labels. */
function decideNotSelected({ gate, owned, standing, isSpared }: GateCase): GateVerdict {
  const { taintId, rule, spec } = gate;
  const reason = reasons.GateNotSelected;
  const ours = [...owned].map((id): [MarkId, Reason] => [id, reason]);
  const base = { ...nothing, phase: "NotSelected", reason, removals: new Map(ours) } as const;
  if (standing === undefined || owned.has(taintId)) return base;
  // Admission put the taint on before the node was known to belong to the control plane.
  if (isSpared && standing === spec.taint.value)
    return { ...base, removals: new Map([...ours, [taintId, reason]]) };
  const message = `${rule} does not select the node, so the gate may not remove the taint`;
  const finding: Finding = { reason, severity: "warning", subject: taintId, message };
  return { ...base, keep: new Map([[taintId, reason]]), findings: [finding] };
}

function decideOpen(it: GateCase): GateVerdict {
  const { idle } = it;
  if (it.isGoing) return stay(it);
  const isCandidate = isBackfillCandidate(it);
  if (isCandidate && idle === "unknown") {
    const message = "the node joined without the taint; Berth checks whether pods run there";
    return stay(it, [say(it, "info", reasons.BackfillPending, message)], SLOW_RECHECK_MS);
  }
  if (isCandidate && idle !== "unknown" && idle.idle) return hold(it, reasons.Gated, pending(it));
  const again = whyAgain(it);
  const may = again === undefined ? false : it.mayHoldAgain;
  if (may === undefined) return stay(it, [], PENDING_RECHECK_MS);
  if (again !== undefined && may)
    return hold(it, reasons.HeldAgain, [say(it, "info", reasons.HeldAgain, again)]);
  if (again !== undefined) {
    const { percent, nodes } = it.gate.spec.heldAgain;
    const message = `${again}, but the limit of nodes held again is reached (${percent} %, at least ${nodes})`;
    return stay(it, [say(it, "warning", reasons.GateCapReached, message)], SLOW_RECHECK_MS);
  }
  if (!isCandidate || idle === "unknown" || idle.idle) return decideForced(it);
  const message = `the node joined without the taint, and Berth leaves it alone, because ${idle.pod} runs there`;
  return stay(it, [say(it, "warning", reasons.GateMissed, message)]);
}

/** After a forced release by a continuous gate, the node counts as released normally once its signals were stable. */
function decideForced(it: GateCase): GateVerdict {
  const { gate, state, readings, stableForMs } = it;
  if (gate.spec.mode === "Once" || !isForced(state) || readings.length === 0) return stay(it);
  if (readings.some((reading) => reading.state !== "holds")) return stay(it);
  const leftMs = gate.stableForMs - stableForMs;
  if (leftMs > 0) return stay(it, [], Math.max(1, leftMs));
  const { note: _, ...rest } = state;
  return stay({ ...it, stateText: stringifyState({ ...rest, why: reasons.Released }) });
}

/** The gate never held the node, the original did not release it, and the node is young enough. */
export function isBackfillCandidate(
  it: Pick<GateCase, "selected" | "state" | "completed" | "isFresh" | "standing">,
): boolean {
  const { selected, state, completed = "", isFresh, standing } = it;
  return selected && isFresh && standing === undefined && state === undefined && completed === "";
}

/** Why a node that is not held should be held again, in words. */
function whyAgain({ gate: { spec }, state, readings, boot }: GateCase): string | undefined {
  const rebooted = isRebooted(state, boot);
  if (spec.regateOnReboot && rebooted) return "the node was rebooted";
  if (spec.mode === "Once") return undefined;
  // After a forced release the signals must hold once before they can be lost.
  if (isForced(state) && !rebooted) return undefined;
  const lost = readings.find((reading) => reading.state === "missing");
  return lost && `${lost.signal}: ${lost.message}`;
}

/** The gate released the node without its signals. */
function isForced(
  state: GateState | undefined,
): state is GateState & { readonly state: "released"; readonly why: ReleasedReason } {
  return state?.state === "released" && state.why !== reasons.Released;
}

/** The boot as the state stores it; empty for an unknown boot. */
export function bootFacts({ id, since }: Boot): Pick<GateState, "boot" | "bootAt"> {
  return id === "" ? {} : { boot: id, ...(since !== undefined && { bootAt: since }) };
}

/** An unknown boot never counts as another boot. */
function isRebooted(state: GateState | undefined, boot: Boot): boolean {
  return state?.boot !== undefined && boot.id !== "" && boot.id !== state.boot;
}

function decideHeld(it: GateCase): GateVerdict {
  const { gate, state, readings, waitsFor, boot } = it;
  // Another actor put the taint back after a forced release.
  if (isForced(state) && !isRebooted(state, boot)) return release(it, state.why, state.note);
  const why = state?.state === "held" ? state.why : reasons.Gated;
  if (waitsFor.length > 0) return hold(it, why, pending(it));
  const missing = readings.filter((reading) => reading.state !== "holds");
  if (missing.length === 0) {
    const wait = waitOf(it);
    if (wait === undefined) return release(it, reasons.Released);
    return hold(it, why, [say(it, "info", wait.reason, wait.message)], Math.max(1, wait.leftMs));
  }
  const findings = pending(it);
  if (it.isGoing) return hold(it, why, findings);
  const late = timedOut(it);
  const next = Math.min(...nextTimeouts(it));
  const due = Number.isFinite(next) ? Math.max(1, next) : undefined;
  if (late === undefined) return hold(it, why, findings, due);
  const { policy } = gate.spec.timeouts;
  const what = missing.map(({ signal, message }) => `${signal}: ${message}`).join("; ");
  if (policy === "Release") return release(it, reasons.TimedOut, `${late}; ${what}`);
  const said = say(it, "warning", reasons.TimedOut, `${late}; ${what}`);
  const held = hold(it, why, [...findings, said], due);
  return {
    ...held,
    phase: why === reasons.HeldAgain ? "TimedOutAgain" : "TimedOut",
    marks: policy === "Cordon" && it.cordonedBy !== gate.rule ? [...held.marks, ...cordon(it)] : held.marks,
  };
}

/** A held node waits for the gates before this one. After they have released it, it waits for the signals. */
function pending(it: GateCase): readonly Finding[] {
  const { waitsFor, readings } = it;
  if (waitsFor.length > 0)
    return [say(it, "info", reasons.GateBefore, `it waits for ${waitsFor.join(", ")}`)];
  return readings
    .filter(({ state }) => state !== "holds")
    .map(({ signal, reason, message }) => say(it, "info", reason, `${signal}: ${message}`));
}

/** The wait that remains after all signals hold: the stable time or the minimum hold. */
function waitOf({
  gate,
  stableForMs,
  heldForMs,
}: GateCase): { readonly reason: Reason; readonly message: string; readonly leftMs: number } | undefined {
  const stableMs = gate.stableForMs - stableForMs;
  const minimumMs = gate.minimumHoldMs - heldForMs;
  if (stableMs > 0 && stableMs >= minimumMs) {
    const message = `all signals hold, and must for ${gate.spec.stableFor}`;
    return { reason: reasons.NotStable, message, leftMs: stableMs };
  }
  if (minimumMs <= 0) return undefined;
  const message = `all signals hold; the node is held for ${gate.spec.minimumHold} at least`;
  return { reason: reasons.MinimumHold, message, leftMs: minimumMs };
}

/** Which timeout has passed, in words. */
function timedOut({ gate, readings, heldForMs, unknownForMs }: GateCase): string | undefined {
  const isUnknown = readings.some(({ state }) => state === "unknown");
  if (isUnknown && unknownForMs < UNKNOWN_LIMIT_MS) return undefined;
  const { timeouts } = gate.spec;
  const noPod = readings.some((reading) => reading.noPod === true);
  if (noPod && heldForMs >= (gate.noPodMs ?? Number.POSITIVE_INFINITY)) {
    return `no pod has come within ${timeouts.noPod ?? ""}`;
  }
  return heldForMs >= (gate.notReadyMs ?? Number.POSITIVE_INFINITY)
    ? `not ready within ${timeouts.notReady ?? ""}`
    : undefined;
}

function nextTimeouts({ gate, heldForMs, unknownForMs, readings }: GateCase): readonly number[] {
  const unknown = readings.some(({ state }) => state === "unknown") ? [UNKNOWN_LIMIT_MS - unknownForMs] : [];
  const limits = [gate.noPodMs, gate.notReadyMs].filter((limit) => limit !== undefined);
  return [...limits.map((limit) => limit - heldForMs), ...(limits.length > 0 ? unknown : [])].filter(
    (ms) => ms > 0,
  );
}

function hold(
  it: GateCase,
  why: HeldReason,
  findings: readonly Finding[],
  recheckAfterMs?: number,
): GateVerdict {
  const { gate, state, boot } = it;
  const { rule, taintId, stateId, spec } = gate;
  const base = state?.state === "held" ? state : { at: it.stamp(`held ${it.stateText ?? ""}`), why };
  const text = stringifyState({ state: "held", at: base.at, why: base.why, ...bootFacts(boot) });
  const overwrite = { rule, reason: why, foreign: "overwrite" } as const;
  return {
    ...nothing,
    phase: why === reasons.HeldAgain ? "HeldAgain" : "Held",
    reason: why,
    marks: [
      { ...overwrite, id: taintId, value: spec.taint.value, announce: "always" },
      { ...overwrite, id: stateId, value: text, announce: "never" },
      ...completedMark(it),
      // The gate keeps its cordon until the release, also while the signals hold and are not stable yet.
      ...(spec.timeouts.policy === "Cordon" && it.cordonedBy === rule ? cordon(it) : []),
    ],
    findings,
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}

function release(it: GateCase, why: ReleasedReason, note?: string): GateVerdict {
  const { gate, boot, state } = it;
  const { rule, taintId, stateId, completedId } = gate;
  // A repeated release: the taint is still there, or another actor put it back. Nothing else is new.
  const isRepeated = state?.state === "released" && state.why === why && !isRebooted(state, boot);
  const at = isRepeated ? state.at : it.stamp(`released ${it.stateText ?? ""}`);
  const text = stringifyState({
    state: "released",
    at,
    why,
    ...bootFacts(boot),
    ...(note !== undefined && { note }),
  });
  const value = isRepeated && it.stateText !== undefined ? it.stateText : text;
  const mark = { rule, reason: why, foreign: "overwrite", announce: "never" } as const;
  return {
    ...nothing,
    phase: "Open",
    reason: why,
    marks: [
      { ...mark, id: stateId, value },
      ...(completedId === undefined ? [] : [{ ...mark, id: completedId, value: `${Math.floor(at / 1000)}` }]),
    ],
    removals: new Map([
      [taintId, why],
      ["unschedulable", why],
    ]),
  };
}

/** Changes nothing; Berth's own marks stay as they are. */
function stay(it: GateCase, findings: readonly Finding[] = [], recheckAfterMs?: number): GateVerdict {
  const marks = [...ownMark(it, it.gate.stateId, it.stateText), ...completedMark(it)];
  const reason = it.state?.why ?? reasons.Released;
  return {
    ...nothing,
    phase: "Open",
    reason,
    marks,
    findings,
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}

/** The time of an earlier release, if Berth owns the annotation. */
function completedMark(it: GateCase): readonly Mark[] {
  return ownMark(it, it.gate.completedId, it.completed);
}

function ownMark(
  { gate: { rule }, owned, state }: GateCase,
  id: MarkId | undefined,
  value: string | undefined,
): readonly Mark[] {
  if (id === undefined || value === undefined || !owned.has(id)) return [];
  const reason = state?.why ?? reasons.Released;
  return [{ id, value, rule, reason, foreign: "overwrite", announce: "never" }];
}

/** Does not take over a cordon that a person has set. Several gates may keep a node cordoned together. */
function cordon({ gate: { rule }, cordoned, cordonedBy }: GateCase): readonly Mark[] {
  if (cordoned && cordonedBy === undefined) return [];
  const reason = reasons.TimedOut;
  return [{ id: "unschedulable", value: "true", rule, reason, foreign: "leave", announce: "always" }];
}

const nothing: Pick<GateVerdict, "marks" | "keep" | "removals" | "findings"> = {
  marks: [],
  keep: new Map(),
  removals: new Map(),
  findings: [],
};

function say({ gate }: GateCase, severity: Finding["severity"], reason: Reason, message: string): Finding {
  return { reason, severity, subject: gate.rule, message };
}
