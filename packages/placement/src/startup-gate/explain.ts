/** State of one node under each startup gate, for `explain` and `gate list`. Plain data. */
import type { Reason } from "../api/reasons.ts";
import { toTimestamp } from "../node/record.ts";
import type { GateLook } from "./capability.ts";
import { type GateCase, type GatePhase, isHeld, isWanted } from "./decide.ts";
import type { SignalReading } from "./gate.ts";

/** A time to wait for, ms. */
export interface TimeExplanation {
  /** The part that has passed; absent when a single observation cannot know it. */
  readonly passedMs?: number;
  readonly ofMs: number;
}

export interface TimeoutExplanation extends Required<TimeExplanation> {
  /** `noPod` counts only while a signal has no pod on the node. */
  readonly timeout: "noPod" | "notReady";
  readonly policy: "Keep" | "Release" | "Cordon";
}

export interface GateExplanation {
  readonly gate: string;
  readonly selected: boolean;
  readonly held: boolean;
  /** The phase of the node after the present decision is written. */
  readonly phase: GatePhase;
  /** Why the gate holds the node, or has released it; absent for a node that was never held. */
  readonly reason?: Reason;
  /** The next write puts the taint on, or takes it off. */
  readonly next?: "hold" | "release";
  /** Start of the hold, or time of the release, RFC 3339; absent when the node does not say it. */
  readonly since?: string;
  readonly note?: string;
  /** The gate is in dry run and writes nothing. */
  readonly dryRun?: true;
  /** Gates that must release the node first. */
  readonly after: readonly string[];
  /** Empty when nothing depends on them at present. `since` is RFC 3339, absent where no object says it. */
  readonly signals: readonly (Pick<SignalReading, "signal" | "state" | "reason" | "message"> & {
    readonly since?: string;
  })[];
  /** How long all signals must hold, and have held. Absent while one is missing. */
  readonly stable?: TimeExplanation;
  /** The minimum hold, while it has not passed. */
  readonly minimumHold?: Required<TimeExplanation>;
  /** Timeouts, both pending and passed. Only for a held node whose signals do not all hold. */
  readonly timeouts: readonly TimeoutExplanation[];
}

export function explainGates(looks: readonly GateLook[]): readonly GateExplanation[] {
  return looks.map(explainGate);
}

function explainGate({ of: it, verdict: { phase, reason } }: GateLook): GateExplanation {
  const { gate, selected, state, waitsFor, readings, trial } = it;
  const { dryRun } = gate.spec;
  const willHold = isWanted(phase);
  const held = selected && (dryRun ? trial?.real.standing !== undefined : isHeld(it));
  const waits = held || phase === "WouldHold";
  const next = dryRun || held === willHold ? undefined : held ? "release" : "hold";
  // Admission or the kubelet has set a taint that has no state.
  const isCurrent = state !== undefined && (state.state === "held") === waits;
  const hasHistory = !selected || state !== undefined || willHold || next !== undefined;
  return {
    gate: gate.rule,
    selected,
    held,
    phase,
    ...(hasHistory && { reason }),
    ...(next !== undefined && { next }),
    ...(isCurrent && { since: toTimestamp(state.at) }),
    ...(isCurrent && state.note !== undefined && { note: state.note }),
    ...(dryRun && { dryRun }),
    after: waits ? waitsFor : [],
    signals: readings.map(toSignal),
    ...(waits ? waitsOf(it) : { timeouts: [] }),
  };
}

function toSignal({ since, ...reading }: GateCase["readings"][number]): GateExplanation["signals"][number] {
  const { signal, state, reason, message } = reading;
  const said = { signal, state, reason, message };
  return since === undefined ? said : { ...said, since: toTimestamp(since) };
}

function waitsOf(it: GateCase): Pick<GateExplanation, "stable" | "minimumHold" | "timeouts"> {
  const { gate, readings, waitsFor, heldForMs, stableForMs } = it;
  if (waitsFor.length > 0) return { timeouts: [] };
  const isComplete = readings.every(({ state }) => state === "holds");
  const isDated = readings.every(({ since }) => since !== undefined);
  return {
    ...(isComplete &&
      gate.stableForMs > 0 && {
        stable: { ...(isDated && { passedMs: Math.round(stableForMs) }), ofMs: gate.stableForMs },
      }),
    ...(heldForMs < gate.minimumHoldMs && {
      minimumHold: { passedMs: Math.round(heldForMs), ofMs: gate.minimumHoldMs },
    }),
    timeouts: isComplete ? [] : timeoutsOf(it),
  };
}

function timeoutsOf({ gate, heldForMs, readings }: GateCase): readonly TimeoutExplanation[] {
  const { noPodMs, notReadyMs, spec } = gate;
  const common = { passedMs: Math.round(heldForMs), policy: spec.timeouts.policy };
  const isNoPod = readings.some(({ noPod }) => noPod === true);
  return [
    ...(noPodMs !== undefined && isNoPod ? [{ ...common, timeout: "noPod" as const, ofMs: noPodMs }] : []),
    ...(notReadyMs === undefined ? [] : [{ ...common, timeout: "notReady" as const, ofMs: notReadyMs }]),
  ];
}
