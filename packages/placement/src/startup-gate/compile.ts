/** Compiles `StartupGate` documents to gates in force. */

import {
  compileByName,
  type DocumentRules,
  durationMs,
  type FoundFault,
  ruleName,
  type Selector,
  type SourceDocuments,
  type Unsettled,
} from "@berth/host";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { reasons } from "../api/reasons.ts";
import { silencing, warn } from "../api/warnings.ts";
import type { NodeView } from "../node/capability.ts";
import { annotationId, type MarkId, parseMarkId, taintId } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import type { RecordedMark } from "../node/record.ts";
import { isEmptySelector, selectorFaults } from "../node/selector.ts";
import { policySources } from "../node/sources.ts";
import { DOMAINS_OF_KUBERNETES, domainOf, STARTUP_DOMAINS } from "../node/taint-domains.ts";
import { originalGate, type StartupGateSpec, signalGroups } from "./document.ts";
import { GATES, type Gate, type GateDocument, type Gates } from "./gate.ts";
import { neverOpens } from "./never-opens.ts";
import { startupGateKind } from "./resource.ts";
import { GATE_DOMAIN, stateId } from "./state.ts";

const MAX_NAME = 63;

/** The places of the contract are always declared: Berth can remove its marks there after the gate is gone. */
export const contractMarks: MarkSet = {
  ids: new Set([
    taintId(originalGate.taint.key, originalGate.taint.effect),
    annotationId(originalGate.completed),
  ]),
  prefixes: [],
};

/** A gate cannot use a taint of these domains, because Kubernetes itself sets and removes such taints. */
const KUBERNETES_DOMAINS: ReadonlySet<string> = DOMAINS_OF_KUBERNETES.union(new Set(["kubernetes.io"]));

/**
 * May Berth remove a recorded mark of a gate here, though no gate declares it? Yes under the domains of startup taints.
 * A user may have deleted the gate or changed its key while Berth did not run; its nodes would stay held for ever.
 */
export function isStartupPlace(id: MarkId): boolean {
  const place = parseMarkId(id);
  if (place?.kind !== "taint" && place?.kind !== "annotation") return false;
  return STARTUP_DOMAINS.has(domainOf(place.key));
}

export interface CompileInput {
  /** In order of precedence: if two gates want the same name or taint, the first is in force. */
  readonly sources: readonly SourceDocuments<GateDocument>[];
  /** Places that gates of this process declared earlier, so that Berth can clear those of a deleted gate. */
  readonly declaredBefore?: Iterable<MarkId>;
  /** Gates that were in force until a moment ago; see `Gates.gone`. */
  readonly gone?: readonly Gate[];
  /** Set while another source may still be read: a mark without a gate here may belong to a gate there. */
  readonly unsettled?: Unsettled | undefined;
}

/** Total: it reports a document with a fault and leaves it out. The other documents are in force. */
export function compileGates(input: CompileInput): Gates {
  const { sources, gone = [] } = input;
  const { inForce, faults } = compileByName(sources, {
    reason: reasons.GateInvalid,
    ofTwins: reasons.GateOverlap,
    check: faultsOf,
    make: toGate,
    warn: (gate) =>
      warn(gate, reasons.GateNeverOpens, neverOpens(gate.spec)).map(({ code, message }) => {
        return { path: ["signals"], reason: code, message: `no node can pass the gate: ${message}` };
      }),
    clashes: (gate, first) => [...overlaps(gate, first), ...cycles(gate, first)],
  });
  const ordered = inOrder(inForce);
  const taints = new Set(ordered.map(({ taintId: id }) => id));
  const left = gone.filter(({ taintId: id }) => !taints.has(id));
  return {
    gates: ordered,
    policy: policyOf(ordered, input),
    faults,
    ...(left.length > 0 && { gone: left }),
  };
}

function toGate({ name, spec, annotations }: GateDocument, rule: string): Gate {
  const { taint, completedAnnotation, timeouts } = spec;
  const isOriginal = taint.key === originalGate.taint.key && taint.effect === originalGate.taint.effect;
  const completed = completedAnnotation ?? (isOriginal ? originalGate.completed : undefined);
  return {
    rule,
    name,
    spec,
    taintId: taintId(taint.key, taint.effect),
    stateId: stateId(name),
    ...(completed !== undefined && { completedId: annotationId(completed) }),
    stableForMs: durationMs(spec.stableFor),
    minimumHoldMs: durationMs(spec.minimumHold),
    ...(timeouts.noPod !== undefined && { noPodMs: durationMs(timeouts.noPod) }),
    ...(timeouts.notReady !== undefined && { notReadyMs: durationMs(timeouts.notReady) }),
    backfillMs: durationMs(spec.backfill.within),
    ...silencing({ annotations }),
  };
}

/** Places that the gate writes, besides `unschedulable`. */
export function placesOf({ taintId: taint, stateId: state, completedId }: Gate): readonly MarkId[] {
  return completedId === undefined ? [taint, state] : [taint, state, completedId];
}

/** Recorded places of the gate, also those recorded by a gate of another name. No other gate in force has them. */
export function ownPlaces(owned: NodeView["owned"], gate: Gate): ReadonlySet<MarkId> {
  const places = placesOf(gate);
  const isOwn = ([id, { capability, rule }]: readonly [MarkId, RecordedMark]): boolean =>
    capability === GATES && (rule === gate.rule || places.includes(id));
  return new Set(
    owned
      .entries()
      .filter(isOwn)
      .map(([id]) => id),
  );
}

function faultsOf({ name, spec }: GateDocument): readonly FoundFault[] {
  const found: FoundFault[] = [];
  const report = (path: FoundFault["path"], message: string): void => void found.push({ path, message });
  const { taint, completedAnnotation: completed = "" } = spec;
  if (name.length > MAX_NAME) report([], `the name of a gate has at most ${MAX_NAME} characters`);
  const checkSelector = (selector: Selector, path: FoundFault["path"]): void =>
    void found.push(...selectorFaults(selector, path));
  checkSelector(spec.nodeSelector, ["nodeSelector"]);
  if (KUBERNETES_DOMAINS.has(domainOf(taint.key)))
    report(["taint", "key"], "Kubernetes itself sets and removes taints of this domain");
  for (const [group, { pods }] of signalGroups(spec).entries()) {
    const of = group === 0 ? ["signals"] : ["signals", "anyOf", group - 1];
    for (const [at, { selector }] of pods.entries()) {
      const path = [...of, "pods", at, "selector"];
      checkSelector(selector, path);
      if (isEmptySelector(selector)) report(path, "it selects every pod: name at least one label");
    }
  }
  if (completed === MARKS_ANNOTATION || completed.startsWith(`${GATE_DOMAIN}/`))
    report(["completedAnnotation"], "Berth keeps its own state there");
  return found;
}

function overlaps(gate: Gate, first: readonly Gate[]): readonly FoundFault[] {
  const wanted = [
    { id: gate.taintId, path: ["taint", "key"], what: "has the same taint" },
    { id: gate.completedId, path: ["completedAnnotation"], what: "writes the same annotation" },
  ];
  return wanted.flatMap(({ id, path, what }) => {
    const other = id && first.find((one) => placesOf(one).includes(id));
    if (!other) return [];
    const message = `${other.rule} ${what}, came first, and stays in force`;
    return [{ path, reason: reasons.GateOverlap, message }];
  });
}

/** Only the gate that closes a circle is refused. */
function cycles(gate: Gate, first: readonly Gate[]): readonly FoundFault[] {
  const all = new Map([...first, gate].map((one) => [one.name, one]));
  const message = "it waits for itself, directly or through other gates, which came first and stay in force";
  return reaches(all, gate.name, gate.name) ? [{ path: ["after"], message }] : [];
}

/** Orders each gate after those that it waits for. A gate does not wait for one that is missing. */
function inOrder(gates: readonly Gate[]): readonly Gate[] {
  const left = new Map(gates.map((gate) => [gate.name, gate]));
  const ordered: Gate[] = [];
  while (left.size > 0) {
    const free = [...left.values()].filter(({ spec }) => !spec.after.some((name) => left.has(name)));
    ordered.push(...free);
    for (const { name } of free) left.delete(name);
  }
  return ordered;
}

/** Does one gate wait for the other, directly or through other gates? */
function reaches(all: ReadonlyMap<string, Gate>, from: string, to: string): boolean {
  const reached = new Set<string>();
  const next = [...(all.get(from)?.spec.after ?? [])];
  for (let name = next.pop(); name !== undefined; name = next.pop()) {
    if (name === to) return true;
    if (reached.has(name)) continue;
    reached.add(name);
    next.push(...(all.get(name)?.spec.after ?? []));
  }
  return false;
}

function policyOf(
  gates: readonly Gate[],
  { sources, declaredBefore = [], unsettled }: CompileInput,
): Gates["policy"] {
  const places = new Set<MarkId>(gates.map(({ taintId: id }) => id));
  if (gates.some(({ spec }) => spec.timeouts.policy === "Cordon")) places.add("unschedulable");
  const known = [...contractMarks.ids, ...declaredBefore, ...gates.flatMap(placesOf), ...places];
  const declared: MarkSet = { ids: new Set(known), prefixes: [] };
  const rules = sources.flatMap(({ source, documents }) =>
    documents.map(({ name }) => ruleName(source, name)),
  );
  return {
    ...policySources(sources, unsettled, new Set(rules)),
    declared,
    allowedProtected: declared,
    places,
    exclusive: { ids: new Set(gates.filter(isEnforced).map(({ taintId: id }) => id)), prefixes: [] },
  };
}

function isEnforced({ spec }: Gate): boolean {
  return !spec.dryRun;
}

/** Leaves out gates in dry run: they write nothing, and admission must not act for them. */
export function enforcedGates(gates: Gates | undefined): Gates | undefined {
  return gates === undefined || gates.gates.every(isEnforced)
    ? gates
    : { ...gates, gates: gates.gates.filter(isEnforced) };
}

/** Places that the next compilation must still know; see `CompileInput.declaredBefore`. */
export function declaredPlaces({ gates }: Gates): readonly MarkId[] {
  return gates.flatMap(placesOf);
}

/** Rules from documents to gates, without a memory of earlier gates; see `createGateRules`. */
export const gateRules: DocumentRules<StartupGateSpec, Gates> = {
  kind: startupGateKind,
  compile: compileGates,
  faultsOf: ({ faults }) => faults,
  resultOf({ name }, { gates }) {
    const gate = gates.find(({ rule }) => rule === ruleName("cluster", name));
    // No gate waits for a gate that is not in force; its name may be misspelt.
    const names = new Set(gates.map((one) => one.name));
    const unknown = gate?.spec.after.filter((one) => !names.has(one)) ?? [];
    const not = unknown.length === 0 ? "" : `; not in force, and so not waited for: ${unknown.join(", ")}`;
    return { ready: true, reason: reasons.GateInForce, message: `in force${not}` };
  },
};
