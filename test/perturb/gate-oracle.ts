/**
 * What startup gates may do to nodes, worked out a second time from what the API server had at each moment, without a
 * line of the product's own code.
 */
import type { DaemonSet, Node, Pod } from "@berth/kube";
import { daemonSets, pods } from "@berth/kube";
import { startupGates } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import { ofKind, Worlds } from "./worlds.ts";

/** A gate of a story. It is there or not; nobody edits it. */
export interface StoryGate {
  /** Its effect is `NoSchedule`, its value `wait`. */
  readonly taint: string;
  /** Annotation with the time of the release. Default none. */
  readonly completed?: string;
  /** All pods of DaemonSets in kube-system with these labels, at least one. Each a watch of its own. */
  readonly pods?: readonly Labels[];
  /** Conditions of the node that have to be `True`. */
  readonly conditions?: readonly string[];
  /** Annotations of the node that have to be `true`. */
  readonly annotations?: readonly string[];
  /** Local names of gates. */
  readonly after?: readonly string[];
  /** Hold again so many nodes at once. Default never. */
  readonly again?: number;
}

/** By local name. */
export type StoryGates = Readonly<Record<string, StoryGate>>;

/** What the API server had at one moment, nodes apart. */
export interface GateView {
  readonly pods: readonly Pod[];
  readonly daemonSets: readonly DaemonSet[];
  /** Local names of the gates that were there. */
  readonly gates: ReadonlySet<string>;
}

/** Namespaces whose pods do not make a node busy. */
const IGNORED: ReadonlySet<string> = new Set(["kube-system", "kube-public"]);

export type GateWorlds = Worlds<GateView>;

/** @param steps in order, the start included. */
export function gateWorlds(history: readonly HistoryEntry[], steps: readonly string[]): GateWorlds {
  return new Worlds(history, steps, toView);
}

function toView(entries: readonly HistoryEntry[]): GateView {
  const gates = entries.filter(({ resource }) => resource === startupGates).map(({ name }) => name);
  return { pods: ofKind(entries, pods), daemonSets: ofKind(entries, daemonSets), gates: new Set(gates) };
}

/** Each of the signals held at one of these moments. */
export function signalsHeld(gate: StoryGate, node: Node, views: readonly GateView[]): boolean {
  return signalsOf(gate, node).every((holds) => views.some(holds));
}

/** One of the signals did not hold at one of these moments. */
export function signalLost(gate: StoryGate, node: Node, views: readonly GateView[]): boolean {
  return signalsOf(gate, node).some((holds) => views.some((view) => !holds(view)));
}

function signalsOf(gate: StoryGate, node: Node): readonly ((view: GateView) => boolean)[] {
  const { conditions = [], annotations = [] } = gate;
  const isTrue = (type: string): boolean =>
    node.status?.conditions?.some((one) => one.type === type && one.status === "True") === true;
  const isSet = (key: string): boolean => node.metadata?.annotations?.[key] === "true";
  return [
    ...conditions.map((type) => () => isTrue(type)),
    ...annotations.map((key) => () => isSet(key)),
    ...(gate.pods ?? []).map((labels) => (view: GateView) => arePodsReady(labels, node, view)),
  ];
}

function arePodsReady(labels: Labels, node: Node, view: GateView): boolean {
  const counting = view.pods.filter((pod) => {
    const { namespace, labels: has = {}, deletionTimestamp, ownerReferences = [] } = pod.metadata ?? {};
    const isSelected = Object.entries(labels).every(([key, value]) => has[key] === value);
    const isOwned = ownerReferences.some(({ uid }) => view.daemonSets.some((it) => it.metadata?.uid === uid));
    const isOver =
      deletionTimestamp !== undefined || ["Succeeded", "Failed"].includes(pod.status?.phase ?? "");
    const isYounger =
      Date.parse(pod.metadata?.creationTimestamp ?? "") >= Date.parse(node.metadata?.creationTimestamp ?? "");
    const isThere = pod.spec?.nodeName === node.metadata?.name && namespace === "kube-system";
    return isThere && isSelected && isOwned && !isOver && isYounger;
  });
  return counting.length > 0 && counting.every(isReady);
}

function isReady({ status }: Pod): boolean {
  const { containerStatuses = [], conditions = [] } = status ?? {};
  return (
    containerStatuses.length > 0 &&
    containerStatuses.every(({ ready }) => ready) &&
    conditions.some(({ type, status: is }) => type === "Ready" && is === "True")
  );
}

/** No pod of a user was on the node at one of these moments. */
export function wasIdle(node: Node, views: readonly GateView[]): boolean {
  const isUsers = ({ metadata, spec }: Pod): boolean =>
    spec?.nodeName === node.metadata?.name && !IGNORED.has(metadata?.namespace ?? "");
  return views.some((view) => !view.pods.some(isUsers));
}

/** What a node says of a gate: in its taints and in its annotations. */
export interface GateTrace {
  readonly stands: boolean;
  /** `held`, `released`, or what cannot be read; `undefined` when nothing is said. */
  readonly state: string | undefined;
  readonly why: string | undefined;
  /** RFC 3339. */
  readonly at: string;
  readonly completed: string | undefined;
  /** Recorded as Berth's own. */
  readonly owned: readonly string[];
}

/** @param name of the gate in the cluster. */
export function traceOf(node: Node | undefined, gate: StoryGate, name: string): GateTrace {
  const { annotations = {} } = node?.metadata ?? {};
  const text = annotations[`gate.berth.dev/${name}`];
  const { state, why, at = "" } = text === undefined ? {} : readState(text);
  const rule = `cluster/${name}`;
  return {
    stands: node?.spec?.taints?.some(({ key }) => key === gate.taint) === true,
    state,
    why,
    at,
    completed: gate.completed === undefined ? undefined : annotations[gate.completed],
    owned: Object.entries(recordedOf(node)).flatMap(([id, by]) => (by === rule ? [id] : [])),
  };
}

function readState(text: string): { readonly state: string; readonly why?: string; readonly at?: string } {
  try {
    const { v, ...rest } = JSON.parse(text) as { v: number; state: string; why: string; at: string };
    return v === 1 ? rest : { state: text };
  } catch {
    return { state: text };
  }
}

/** The rule of every mark that the node's record claims, by mark. One that cannot be read is a claim too. */
export function recordedOf(node: Node | undefined): Labels {
  const text = node?.metadata?.annotations?.["berth.dev/marks"];
  if (text === undefined) return {};
  try {
    const { v, by, marks } = JSON.parse(text) as {
      v: number;
      by: string;
      marks: Readonly<Record<string, { readonly c: string; readonly r: string }>>;
    };
    if (v !== 1 || by !== "berth") return { unreadable: text };
    return Object.fromEntries(
      Object.entries(marks).map(([id, { c, r }]) => [id, c === "gates" ? r : `${c} ${r}`]),
    );
  } catch {
    return { unreadable: text };
  }
}

/** Where a node is not yet, or no longer, as the gates want it by what is there now: one sentence each. */
export function unsettled(
  node: Node,
  view: GateView,
  { gates, nameOf }: { readonly gates: StoryGates; readonly nameOf: (local: string) => string },
): readonly string[] {
  return Object.entries(gates).flatMap(([local, gate]) => {
    const { stands, state, why, owned } = traceOf(node, gate, nameOf(local));
    const say = (what: string): readonly string[] => [`${node.metadata?.name}: ${local} ${what}`];
    if (!view.gates.has(local)) {
      const isLeft = stands || state !== undefined || owned.length > 0;
      return isLeft ? say("is gone and has left something") : [];
    }
    const before = (gate.after ?? []).filter((name) => {
      const other = gates[name];
      return view.gates.has(name) && other !== undefined && traceOf(node, other, nameOf(name)).stands;
    });
    const holds = signalsHeld(gate, node, [view]);
    if (!stands) {
      if (state === undefined) return wasIdle(node, [view]) ? say("has never looked at an idle node") : [];
      return state === "released" ? [] : say(`does not hold and says ${state}`);
    }
    if (before.length === 0 && holds) return say("holds on though all signals hold");
    if (state !== "held") return say(`holds and says ${state} (${why})`);
    return owned.length < 2 ? say("holds and has not recorded it") : [];
  });
}
