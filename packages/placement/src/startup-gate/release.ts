/** Release of a node by a person: writes the same as a running Berth, which then continues from it. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { Instant, NodeView, Policy } from "../node/capability.ts";
import type { MarkId } from "../node/mark.ts";
import { mergeContributions } from "../node/merge.ts";
import { type NodePlan, planNode } from "../node/plan.ts";
import type { GateLook } from "./capability.ts";
import { placesOf } from "./compile.ts";
import { bootFacts, decideGate, type GateCase, isHeld } from "./decide.ts";
import { GATES, type Gates } from "./gate.ts";
import { type GateState, stringifyState } from "./state.ts";

export interface ReleaseInput {
  readonly view: NodeView;
  readonly gates: Gates;
  /** Of this node. */
  readonly looks: readonly GateLook[];
  /** Name of the one gate that releases. Default: all gates that hold the node. */
  readonly only?: string;
  /** The note of the person; cut to `MAX_NOTE` characters. */
  readonly note: string;
  readonly installation: string;
  readonly now: Instant;
}

export interface ReleasePlan {
  /** Rules of the gates that release. Empty: none of them holds the node. */
  readonly released: readonly string[];
  readonly plan: NodePlan;
  /** Why a taint would stay. If it is set, the caller must write nothing. */
  readonly problem?: string;
}

/** Plans the release of one node by one patch. The marks of other gates and capabilities stay. */
export function planRelease(input: ReleaseInput): ReleasePlan {
  const { view, looks, only, note, installation, now } = input;
  const held = looks
    .map(({ of: it }) => it)
    .filter((it) => it.selected && isHeldNow(it) && (only === undefined || it.gate.name === only));
  // Decide like a Berth that finds the taint after a release by hand: it keeps to that release.
  const verdicts = held.map((it) => {
    const facts = { at: it.stamp("by hand"), ...bootFacts(it.boot), note };
    const state: GateState = { state: "released", why: reasons.ReleasedByHand, ...facts };
    return decideGate({ ...it, state, stateText: stringifyState(state) });
  });
  const places = new Set(held.flatMap(({ gate }) => placesOf(gate)));
  const decision = {
    marks: verdicts.flatMap(({ marks }) => marks),
    removals: new Map(verdicts.flatMap(({ removals }) => Array.from(removals))),
    keep: keepOthers(input, held, places),
    findings: [],
  };
  const policy = policyFor(input, places);
  const merged = mergeContributions(held.length === 0 ? [] : [{ capability: GATES, policy, decision }]);
  const plan = planNode({ node: view.node, merged, installation, now });
  const problem = problemOf(held, plan);
  return {
    released: held.map(({ gate }) => gate.rule),
    plan,
    ...(problem !== undefined && { problem }),
  };
}

/** A gate in dry run holds no node: Berth can only remove a taint that is on the node. */
function isHeldNow(it: GateCase): boolean {
  return it.trial === undefined ? isHeld(it) : it.trial.real.standing !== undefined;
}

/** Keeps the marks of other gates, and also their taints without a record. */
function keepOthers(
  { view, gates }: ReleaseInput,
  held: readonly GateCase[],
  places: ReadonlySet<MarkId>,
): ReadonlyMap<MarkId, Reason> {
  const rules = new Set(held.map(({ gate }) => gate.rule));
  const keep = new Map<MarkId, Reason>();
  for (const [id, { capability, rule }] of view.owned) {
    if (capability === GATES && !places.has(id) && !rules.has(rule)) keep.set(id, reasons.SourceNotRead);
  }
  for (const { taintId } of gates.gates) if (!places.has(taintId)) keep.set(taintId, reasons.SourceNotRead);
  return keep;
}

/** If a gate has moved between a file and the cluster, its taint is recorded under its former rule. */
function policyFor({ view, gates: { policy } }: ReleaseInput, places: ReadonlySet<MarkId>): Policy {
  const sources = [...view.owned].flatMap(([id, { rule }]) =>
    places.has(id) ? [rule.split("/", 1)[0] ?? ""] : [],
  );
  return { ...policy, sourcesRead: new Set([...policy.sourcesRead, ...sources]) };
}

function problemOf(held: readonly GateCase[], plan: NodePlan): string | undefined {
  const isRemoved = (id: MarkId): boolean =>
    plan.changes.some((it) => it.id === id && it.action === "remove");
  const stuck = held.find(({ gate, standing }) => standing !== undefined && !isRemoved(gate.taintId));
  const full = plan.findings.find(({ reason }) => reason === reasons.AnnotationsFull);
  if (stuck === undefined) return held.length === 0 ? undefined : full?.message;
  const stay = plan.stays.find(({ id }) => id === stuck.gate.taintId);
  if (stay !== undefined) return `${stay.id} stays: ${stay.reason}, recorded for ${stay.recorded.by}`;
  const said = plan.findings.find(({ reason }) => reason !== reasons.AnnotationsFull);
  return said?.message ?? `${stuck.gate.taintId} stays`;
}
