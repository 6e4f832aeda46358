/** What is known of one node and one gate, for tests of the decision alone. */

import { NEW_YEAR } from "../../node/testing/labels.ts";
import { compileGates } from "../compile.ts";
import type { GateCase, GateVerdict } from "../decide.ts";
import { type StartupGateSpec, startupGateSpec } from "../document.ts";
import type { Gate, SignalReading } from "../gate.ts";
import { type GateState, parseState, stringifyState } from "../state.ts";
import type { SignalsInput } from "./observations.ts";

/** A spec as a document has it: what is left out is filled in by the schema. */
export type SpecInput = Partial<
  Omit<StartupGateSpec, "signals" | "timeouts" | "taint" | "heldAgain" | "backfill">
> & {
  readonly signals?: SignalsInput;
  readonly timeouts?: Partial<StartupGateSpec["timeouts"]>;
  readonly taint?: Partial<StartupGateSpec["taint"]>;
  readonly heldAgain?: Partial<StartupGateSpec["heldAgain"]>;
  readonly backfill?: Partial<StartupGateSpec["backfill"]>;
};

/** `config/g` unless it has another name, with the taint of the contract, waiting for the condition `Ready`. */
export function gateOf(spec: SpecInput = {}, name = "g"): Gate {
  const signals = { conditions: [{ type: "Ready" }], ...spec.signals };
  const parsed = startupGateSpec.parse({ ...spec, signals });
  const { gates, faults } = compileGates({
    sources: [{ source: "config", documents: [{ name, spec: parsed }] }],
  });
  const [gate] = gates;
  if (gate === undefined) throw new Error(faults.map(({ message }) => message).join());
  return gate;
}

export const reading = (
  state: SignalReading["state"],
  reason: SignalReading["reason"],
  more: Partial<SignalReading> = {},
): SignalReading => ({
  signal: "pods init",
  state,
  reason,
  message: "as it is",
  evidence: state === "holds" ? "x" : "",
  ...more,
});

export const holds: SignalReading = reading("holds", "SignalHolds");
export const noPod: SignalReading = reading("missing", "PodMissing", { noPod: true });
export const notReady: SignalReading = reading("missing", "PodNotReady");
export const unknown: SignalReading = reading("unknown", "SignalUnknown");

export interface CaseInit extends Partial<Omit<GateCase, "gate" | "owned" | "state" | "stateText">> {
  readonly spec?: SpecInput;
  readonly state?: Partial<GateState> & Pick<GateState, "state" | "why">;
  /** Which of the gate's places are recorded as ours. Default none. */
  readonly owns?: readonly ("taint" | "state" | "completed" | "cordon")[];
}

/** A selected node without the taint, with nothing known; all signals that are given hold for an hour. */
export function caseOf({ spec, state, owns = [], ...more }: CaseInit = {}): GateCase {
  const gate = gateOf(spec);
  const places = {
    taint: gate.taintId,
    state: gate.stateId,
    completed: gate.completedId ?? gate.stateId,
    cordon: "unschedulable",
  } as const;
  const text = state && stringifyState({ at: NEW_YEAR - 600_000, boot: "boot-1", ...state });
  return {
    gate,
    selected: true,
    isSpared: false,
    isGoing: false,
    standing: undefined,
    owned: new Set(owns.map((place) => places[place])),
    state: parseState(text),
    stateText: text,
    completed: undefined,
    cordoned: false,
    cordonedBy: owns.includes("cordon") ? gate.rule : undefined,
    waitsFor: [],
    readings: [holds],
    heldForMs: 3_600_000,
    stableForMs: 3_600_000,
    unknownForMs: 0,
    boot: { id: "boot-1" },
    mayHoldAgain: true,
    idle: "unknown",
    isFresh: false,
    stamp: () => NEW_YEAR,
    ...more,
  };
}

/** `Held Gated: taint=wait held/Gated; PodMissing; again in 5000`: phase and reason; marks; findings; recheck. */
export function tell(it: GateCase, verdict: GateVerdict): string {
  const { gate } = it;
  const marks = verdict.marks.map(({ id, value }) => {
    if (id === gate.taintId) return `taint=${value}`;
    const state = id === gate.stateId ? parseState(value) : undefined;
    if (state !== undefined) return `${state.state}/${state.why}`;
    return id === gate.completedId ? `completed=${value}` : id;
  });
  const says = verdict.findings.map(({ reason, severity }) =>
    severity === "warning" ? `${reason}!` : reason,
  );
  const { recheckAfterMs: again } = verdict;
  return [
    `${verdict.phase} ${verdict.reason}${marks.length === 0 ? "" : `: ${marks.join(" ")}`}`,
    ...(says.length === 0 ? [] : [says.join(" ")]),
    ...(verdict.keep.size === 0 ? [] : [`keeps ${[...verdict.keep.keys()].join(" ")}`]),
    ...(again === undefined ? [] : [`again in ${again}`]),
  ].join("; ");
}
