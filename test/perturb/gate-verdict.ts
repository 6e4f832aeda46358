/** What must never happen to nodes while startup gates are at work, asked of a whole history. */
import { isDeepStrictEqual } from "node:util";
import { daemonSets, type Node, nodes, pods } from "@berth/kube";
import { startupGates } from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import {
  type GateTrace,
  type GateView,
  type GateWorlds,
  gateWorlds,
  recordedOf,
  type StoryGate,
  type StoryGates,
  signalLost,
  signalsHeld,
  traceOf,
  wasIdle,
} from "./gate-oracle.ts";
import { MARKS } from "./node-scene.ts";

export interface GateTrial {
  readonly gates: StoryGates;
  /** The name in the cluster of a gate. */
  readonly nameOf: (local: string) => string;
  /** In order, the start included. */
  readonly steps: readonly string[];
}

/** One sentence for each thing that must not be. */
export function forbiddenOfGates(history: readonly HistoryEntry[], trial: GateTrial): readonly string[] {
  const worlds = gateWorlds(history, trial.steps);
  const ofNodes = history.filter(({ resource }) => resource === nodes);
  const written = history.filter(({ by }) => by === "controller");
  const changed = written.filter(({ resource, type }) => resource === nodes && type === "MODIFIED");
  return [
    ...ofNodes.flatMap(duplicateTaints),
    ...tooManyAgain(ofNodes, trial),
    ...written.flatMap(foreignKind),
    ...changed.flatMap((entry) => foreignPart(entry, trial)),
    ...changed.flatMap((entry) => unrecordedMarks(entry, trial)),
    ...changed.flatMap((entry) => judge(entry, worlds, trial)),
  ];
}

/** It writes nodes and the status of gates, makes nothing and removes nothing. */
function foreignKind({ resource, type, name, step, object, before }: HistoryEntry): readonly string[] {
  if (resource === pods || resource === daemonSets || type !== "MODIFIED") {
    return [`the controller wrote what is not its own: ${type} ${resource.plural} ${name} (${step})`];
  }
  const rest = (it: HistoryEntry["before"]): unknown => ({
    ...it,
    metadata: it?.metadata?.annotations,
    status: 0,
  });
  if (resource !== startupGates || isDeepStrictEqual(rest(before), rest(object))) return [];
  return [`the controller wrote more of a gate than its status: ${name} (${step})`];
}

function duplicateTaints({ object, name, step }: HistoryEntry): readonly string[] {
  const ids = ((object as Node).spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
  return new Set(ids).size === ids.length ? [] : [`${name} has a taint twice: ${ids.join(", ")} (${step})`];
}

/** All of the node but what the gates of the story have there. */
function foreignPart({ object, before, name, step }: HistoryEntry, trial: GateTrial): readonly string[] {
  const ours = Object.entries(trial.gates);
  const taints = new Set(ours.map(([, { taint }]) => taint));
  const keys = new Set([
    MARKS,
    ...ours.flatMap(([local, { completed }]) => [
      `gate.berth.dev/${trial.nameOf(local)}`,
      completed ?? MARKS,
    ]),
  ]);
  const foreign = (node: Node): unknown => {
    const { resourceVersion: _v, managedFields: _f, annotations = {}, ...meta } = node.metadata ?? {};
    return {
      meta,
      annotations: Object.fromEntries(Object.entries(annotations).filter(([key]) => !keys.has(key))),
      spec: { ...node.spec, taints: (node.spec?.taints ?? []).filter(({ key }) => !taints.has(key)) },
      status: node.status,
    };
  };
  const [is, was] = [foreign(object), foreign(before ?? {})];
  if (isDeepStrictEqual(is, was)) return [];
  return [`${name}: foreign things were touched (${step}): ${JSON.stringify(was)} → ${JSON.stringify(is)}`];
}

/** What it set on the node and its record must say the same. */
function unrecordedMarks({ object, name, step }: HistoryEntry, trial: GateTrial): readonly string[] {
  const recorded = Object.keys(recordedOf(object)).toSorted();
  const standing = Object.entries(trial.gates)
    .flatMap(([local, gate]) => marksOf(object, gate, trial.nameOf(local)))
    .toSorted();
  if (isDeepStrictEqual(recorded, standing)) return [];
  return [`${name}: the record says ${recorded.join(", ")}; there is ${standing.join(", ")} (${step})`];
}

/** A taint that Berth has not looked at yet is somebody else's. */
function marksOf(node: Node, gate: StoryGate, name: string): readonly string[] {
  const { stands, state, completed } = traceOf(node, gate, name);
  const marks = [
    state !== undefined && `annotation/gate.berth.dev/${name}`,
    stands && state !== undefined && `taint/${gate.taint}:NoSchedule`,
    completed !== undefined && `annotation/${gate.completed}`,
  ];
  return marks.filter((mark) => mark !== false);
}

/** Why this version must not be. */
function judge(entry: HistoryEntry, worlds: GateWorlds, trial: GateTrial): readonly string[] {
  const node: Node = entry.before ?? {};
  const views = worlds.behind(entry);
  return Object.entries(trial.gates).flatMap(([local, gate]) => {
    const name = trial.nameOf(local);
    const was = traceOf(node, gate, name);
    const is = traceOf(entry.object, gate, name);
    if (isDeepStrictEqual(was, is)) return [];
    const change: Change = { was, is, node, views, life: worlds.since(entry), gate, trial };
    const isForgotten = is.state === undefined && !is.stands;
    const problem = isForgotten ? whyNotForgotten(change, local) : whyNotKept(change, local);
    return problem === undefined ? [] : [`${entry.name}: ${local} ${problem} (${entry.step})`];
  });
}

/** One version, as far as one gate is concerned. */
interface Change {
  readonly was: GateTrace;
  readonly is: GateTrace;
  /** The version that was decided on. */
  readonly node: Node;
  readonly views: readonly GateView[];
  /** Since the node was made. */
  readonly life: readonly GateView[];
  readonly gate: StoryGate;
  readonly trial: GateTrial;
}

/** Everything of the gate is gone: so the gate has to be. */
function whyNotForgotten({ was, is, views }: Change, local: string): string | undefined {
  if (views.every(({ gates }) => gates.has(local))) return "was forgotten though it is there";
  const isLeft = is.owned.length > 0 || (is.completed !== undefined && was.owned.length > 1);
  return isLeft ? `is forgotten, and ${is.owned.join(", ") || "the time of a release"} is left` : undefined;
}

function whyNotKept(change: Change, local: string): string | undefined {
  const { was, is, views } = change;
  if (!views.some(({ gates }) => gates.has(local))) return "is at work though it is not there";
  if (is.stands && is.state !== "held") return `holds and says ${is.state}`;
  if (!is.stands && is.state !== "released") return `does not hold and says ${is.state}`;
  if (is.stands) {
    if (is.completed !== was.completed) return "holds, and the time of the release has changed";
    return was.stands ? undefined : whyNotHeld(change);
  }
  return whyNotReleased(change);
}

function whyNotReleased(change: Change): string | undefined {
  const { was, is, node, views, gate, trial } = change;
  const seconds = `${Date.parse(is.at) / 1000}`;
  if (gate.completed !== undefined && is.completed !== seconds) {
    return `was released at ${seconds} and says it was at ${is.completed}`;
  }
  if (is.why === "ReleasedByHand") {
    return was.why === "ReleasedByHand" ? undefined : "was released by hand, and nobody did";
  }
  if (is.why !== "Released") return `was released because of ${is.why}`;
  if (!was.stands && was.state === "released" && !isRegained(change))
    return `was released again, at ${is.at}`;
  const before = (gate.after ?? []).filter((other) => {
    const it = trial.gates[other];
    return it !== undefined && traceOf(node, it, trial.nameOf(other)).stands;
  });
  const isBefore = before.filter((other) => views.every(({ gates }) => gates.has(other)));
  if (isBefore.length > 0) return `was released before ${isBefore.join(", ")}`;
  return signalsHeld(gate, node, views) ? undefined : "was released though its signals did not hold";
}

/** Let go by hand, it has its signals since, so that they can be lost again; the time of the release stays. */
function isRegained({ was, is, gate }: Change): boolean {
  return gate.again !== undefined && was.why === "ReleasedByHand" && was.at === is.at;
}

function whyNotHeld({ was, is, node, views, life, gate }: Change): string | undefined {
  if (was.state === "held" && was.owned.length > 1) return undefined;
  if (was.state === undefined) {
    if (was.completed !== undefined) return "holds a node that was let go";
    if (is.why === "Gated") return wasIdle(node, life) ? undefined : "holds a busy node";
  }
  if (gate.again === undefined) return "holds a node for the second time";
  if (was.why === "ReleasedByHand") return "holds a node again that was let go by hand";
  return signalLost(gate, node, views) ? undefined : "holds a node again that has lost no signal";
}

/** More nodes were held again at once than the gate allows. */
function tooManyAgain(history: readonly HistoryEntry[], trial: GateTrial): readonly string[] {
  return Object.entries(trial.gates).flatMap(([local, gate]) => {
    const again = new Set<string>();
    return history.flatMap(({ type, name, object, step }) => {
      const { stands, why } = traceOf(object, gate, trial.nameOf(local));
      if (type !== "DELETED" && stands && why === "HeldAgain") again.add(name);
      else again.delete(name);
      if (again.size <= (gate.again ?? 0)) return [];
      return [`${local} holds ${[...again].join(", ")} again at once (${step})`];
    });
  });
}
