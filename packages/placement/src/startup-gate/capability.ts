/** The startup gates as a capability of the node writer. */

import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import { earliest } from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import {
  type BoundCapability,
  type Contribution,
  type Instant,
  type NodeDecision,
  type NodeView,
  nothingWanted,
  type Policy,
  type RuleOutcome,
  unreadPolicy,
} from "../node/capability.ts";
import { type MarkId, markFields, standingValue } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { refusedRules } from "../node/sources.ts";
import type { NodeHost } from "../node/wired.ts";
import { isStartupPlace, placesOf } from "./compile.ts";
import { decideGate, type GateCase, type GateVerdict } from "./decide.ts";
import { GATES, type Gates } from "./gate.ts";
import { type GateSources, observeGates, readingsOf } from "./observe.ts";
import { selects } from "./selection.ts";
import { tryOut } from "./trial.ts";

/** Fields of a Node that gates read: those of the signals, the boot and the creation time. */
export const gateFields: FieldMask = [
  ...markFields,
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "status.allocatable",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].reason",
  "status.conditions[].lastHeartbeatTime",
  "status.conditions[].lastTransitionTime",
  "status.nodeInfo.bootID",
];

/** Observation and verdict of one gate on one node, for people. */
export interface GateLook {
  readonly of: GateCase;
  readonly verdict: GateVerdict;
}

export interface GateCapability extends BoundCapability {
  /** Every gate in force, in order; empty until a source has been read. */
  look(view: NodeView, now: Instant): readonly GateLook[];
}

/**
 * Startup gates. Watches: Nodes, and the objects that signals name. Owns: the taints of the gates, an annotation
 * `gate.berth.dev/<name>` for each, the release-time annotation, and `unschedulable` where a gate has cordoned.
 */
export function bindGates({
  gates: current,
  sources,
}: {
  /** The gates in force; `undefined` until some source has been read. */
  readonly gates: () => Gates | undefined;
  readonly sources: GateSources;
}): GateCapability {
  let last: Gates | undefined;
  const look = (view: NodeView, now: Instant): readonly GateLook[] => {
    const gates = current();
    if (gates === undefined) return [];
    const inForce = gates.gates.map(({ rule }) => rule);
    if (gates !== last) sources.clocks.retain(new Set(inForce), refusedRules(gates.gates, gates.faults));
    last = gates;
    return observeGates(view, gates, { sources, now }).map((it) => {
      const verdict = decideGate(it);
      // A gate in dry run decides like any other, but only reports the result.
      return { of: it, verdict: it.gate.spec.dryRun ? tryOut(it, verdict, view) : verdict };
    });
  };
  return {
    name: GATES,
    look,
    contribute(view, now): Contribution {
      const gates = current();
      if (gates === undefined) return { capability: GATES, policy: unreadPolicy, decision: nothingWanted };
      const admitted = admittedLate(view, gates);
      const policy = policyFor(view, gates.policy, admitted);
      return { capability: GATES, policy, decision: decide(view, { gates, admitted }, look(view, now)) };
    },
    inputs(view, mark) {
      const { gates } = current() ?? { gates: [] };
      const gate = gates.find(({ rule }) => rule === mark.rule);
      const readings = gate ? readingsOf(gate, view.node, { gates, sources }) : [];
      return readings.map(({ signal, message }) => `${signal}: ${message}`);
    },
  };
}

/** Taints that admission put on for gates that are gone, before the API server noticed the change. */
function admittedLate({ node, owned }: NodeView, { gone = [] }: Gates): readonly MarkId[] {
  return gone
    .filter(({ taintId, spec }) => !owned.has(taintId) && standingValue(node, taintId) === spec.taint.value)
    .flatMap((gate) => (selects(gate, node) ? [gate.taintId] : []));
}

/** The policy of all nodes, with additions for this node. */
function policyFor({ owned }: NodeView, policy: Policy, admitted: readonly MarkId[]): Policy {
  const believed = [...owned].flatMap(([id, { capability }]) =>
    capability === GATES && isStartupPlace(id) && !policy.declared.ids.has(id) ? [id] : [],
  );
  if (believed.length + admitted.length === 0) return policy;
  const withIds = ({ ids, prefixes }: MarkSet, more: readonly MarkId[]): MarkSet => ({
    ids: new Set([...ids, ...more]),
    prefixes,
  });
  const declared = withIds(policy.declared, [...believed, ...admitted]);
  const exclusive = withIds(policy.exclusive, admitted);
  return { ...policy, declared, allowedProtected: declared, exclusive };
}

function decide(
  { node, owned }: NodeView,
  { gates, admitted }: { readonly gates: Gates; readonly admitted: readonly MarkId[] },
  looks: readonly GateLook[],
): NodeDecision {
  const marks = looks.flatMap(({ verdict }) => verdict.marks);
  const keep = new Map<MarkId, Reason>(looks.flatMap(({ verdict }) => [...verdict.keep]));
  const removals = new Map<MarkId, Reason>(looks.flatMap(({ verdict }) => [...verdict.removals]));
  for (const id of admitted) removals.set(id, reasons.RuleGone);
  const findings = looks.flatMap(({ verdict }) => verdict.findings);
  const outcomes: RuleOutcome[] = looks.map((it) => ({ rule: it.of.gate.rule, phase: it.verdict.phase }));
  const refused = refusedRules(gates.gates, gates.faults);
  // A gate in force that has the same taint has taken over its nodes.
  const decided = new Set(looks.flatMap(({ of: it }) => (it.selected ? placesOf(it.gate) : [])));
  for (const [id, { capability, rule }] of owned) {
    if (capability !== GATES || !refused.has(rule) || decided.has(id)) continue;
    keep.set(id, reasons.GateInvalid);
    if (id.startsWith("taint/") && standingValue(node, id) !== undefined)
      outcomes.push({ rule, phase: "Held" });
  }
  const recheckAfterMs = earliest(...looks.map(({ verdict }) => verdict.recheckAfterMs));
  return {
    marks,
    keep,
    removals,
    findings,
    outcomes,
    ...(recheckAfterMs !== undefined && { recheckAfterMs }),
  };
}

/** Does every label have the value that this capability wants, and is no label left to remove? */
export function marksSettled(
  capability: BoundCapability,
  node: Node,
  { installation, now }: { readonly installation: string; readonly now: Instant },
): boolean {
  const read = recordOf(node);
  const owned = ownedMarks(read, installation);
  const isOthers = (id: MarkId): boolean =>
    read.state === "read" && read.record.marks.has(id) && !owned.has(id);
  const { decision } = capability.contribute({ node, owned }, now);
  const wanted = new Set(decision.marks.map(({ id }) => id));
  return (
    decision.marks.every(({ id, value, foreign }) => {
      const standing = standingValue(node, id);
      if (standing === value) return true;
      // A value that Berth leaves alone counts as settled.
      return standing !== undefined && (isOthers(id) || (foreign === "leave" && !owned.has(id)));
    }) &&
    [...owned].every(
      ([id, recorded]) =>
        recorded.capability !== capability.name ||
        wanted.has(id) ||
        decision.keep.has(id) ||
        standingValue(node, id) === undefined,
    )
  );
}

/** Do labels of a node have the values of all rules? `undefined` until the rules have been read. */
export function labelsSettledIn({
  facts,
  installation,
  clock,
}: Pick<NodeHost, "facts" | "installation" | "clock">): (node: Node) => boolean | undefined {
  return (node) => {
    const at = { installation, now: clock.now() };
    const all = facts();
    return all.every(({ known }) => known())
      ? all.every(({ capability }) => marksSettled(capability, node, at))
      : undefined;
  };
}
