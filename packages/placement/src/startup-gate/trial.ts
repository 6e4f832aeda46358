/** A gate in dry run: the process keeps the writes of the gate, and nothing reaches the node. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { Finding, NodeView } from "../node/capability.ts";
import type { MarkId } from "../node/mark.ts";
import { toTimestamp } from "../node/record.ts";
import { ownPlaces } from "./compile.ts";
import { type GateCase, type GateVerdict, isWanted } from "./decide.ts";
import { type Gate } from "./gate.ts";
import { type Places, parseState, type Trial } from "./state.ts";

/** A younger node counts as one that admission would have tainted. Lower limit, ms. */
export const MIN_YOUNG_MS = 60_000;

/** Begins with the node as it is. Adds the taint to a young node that has no state and no release time. */
export function beginTrial(gate: Gate, real: Places, isYoung: boolean): Trial {
  const { standing, stateText, completed = "" } = real;
  const isGated = isYoung && stateText === undefined && completed === "";
  return { real, places: { ...real, standing: standing ?? (isGated ? gate.spec.taint.value : undefined) } };
}

/** Places that would be recorded as Berth's. */
export function placesOnTrial(gate: Gate, { standing, stateText, completed }: Places): ReadonlySet<MarkId> {
  const { taintId, stateId, completedId } = gate;
  const all = [
    [taintId, standing] as const,
    [stateId, stateText] as const,
    [completedId, completed] as const,
  ];
  return new Set(all.flatMap(([id, value]) => (id === undefined || value === undefined ? [] : [id])));
}

/** Treats the verdict as written. Returns one that changes nothing and reports the changes it would have made. */
export function tryOut(it: GateCase, verdict: GateVerdict, { owned }: NodeView): GateVerdict {
  const { gate, trial } = it;
  const { phase, reason, recheckAfterMs } = verdict;
  const keep = new Map(Array.from(ownPlaces(owned, gate), (id): [MarkId, Reason] => [id, reasons.DryRun]));
  const nothing = { phase, reason, marks: [], keep, removals: new Map(), findings: [] };
  if (trial === undefined) return nothing;
  trial.places = afterwards(gate, trial.places, verdict);
  const infos = verdict.findings.filter(({ severity }) => severity === "info");
  const isHeld = trial.real.standing !== undefined;
  const recheck = recheckAfterMs === undefined ? {} : { recheckAfterMs };
  if (isWanted(phase)) {
    const why = infos[0] === undefined ? "" : `: ${infos[0].message}`;
    const findings = isHeld ? infos : [...infos, say(gate, reasons.WouldHold, `it would be held${why}`)];
    return { ...nothing, ...recheck, phase: isHeld ? "Held" : "WouldHold", findings };
  }
  const at = releasedAt(trial);
  const since = at === undefined ? "" : ` since ${at}`;
  const said = say(gate, reasons.WouldRelease, `its taint ${gate.spec.taint.key} would be off${since}`);
  const findings = isHeld || at !== undefined ? [...infos, said] : infos;
  return { ...nothing, ...recheck, phase: isHeld ? "WouldRelease" : "Open", findings };
}

function afterwards({ taintId, stateId, completedId }: Gate, before: Places, verdict: GateVerdict): Places {
  const after = (id: MarkId | undefined, now: string | undefined): string | undefined =>
    id === undefined || verdict.removals.has(id)
      ? undefined
      : (verdict.marks.find((it) => it.id === id)?.value ?? now);
  return {
    standing: after(taintId, before.standing),
    stateText: after(stateId, before.stateText),
    completed: after(completedId, before.completed),
  };
}

/** Time at which the dry run released the node; `undefined` if the node itself says so, or was not held. */
function releasedAt({ real, places }: Trial): string | undefined {
  const state = places.stateText === real.stateText ? undefined : parseState(places.stateText);
  return state?.state === "released" ? toTimestamp(state.at) : undefined;
}

function say({ rule }: Gate, reason: Reason, message: string): Finding {
  return { reason, severity: "warning", subject: rule, message };
}
