/** What must never happen while architecture policies are at work, asked of a whole history. */
import { isDeepStrictEqual } from "node:util";
import {
  type DaemonSet,
  daemonSets,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pods,
  type Resource,
} from "@berth/kube";
import {
  ARCHITECTURE,
  ARCHITECTURE_CONDITION,
  ARCHITECTURE_GATE,
  architecturePolicies,
  tolerationsAnnotation,
} from "@berth/placement";
import type { HistoryEntry } from "@berth/testcluster";
import {
  type ArchitectureView,
  conditionOf,
  governing,
  isGated,
  keysOf,
  narrowed,
  taintsAt,
  toArchitectureView,
  uncovered,
  verdictOf,
  wantedTaint,
} from "./architecture-oracle.ts";
import { recordedOf } from "./gate-oracle.ts";
import { MARKS } from "./node-scene.ts";
import { Worlds } from "./worlds.ts";

export interface ArchitectureTrial {
  /** In order, the start included. */
  readonly steps: readonly string[];
  /** Of the policies of the story. */
  readonly keys: readonly string[];
  /** In force all the time, for the sentinel: what is tolerated of it says nothing. */
  readonly sentinelKey: string;
}

/** One sentence for each thing that must not be. */
export function forbiddenOfArchitectures(
  history: readonly HistoryEntry[],
  trial: ArchitectureTrial,
): readonly string[] {
  // A first list is never older than its request, so all that is there before the start is seen together.
  const prepared = history.findIndex(({ by, step }) => by !== "story" || step !== trial.steps[0]);
  const worlds = new Worlds(history, trial.steps, toArchitectureView, Math.max(prepared, 0));
  const written = history.filter(({ by }) => by === "controller");
  return [
    ...flappingTaints(history, trial),
    ...written.flatMap((entry) =>
      problemsOf(entry, worlds.behind(entry), trial).map(
        (problem) => `${entry.name} ${problem} (${entry.step})`,
      ),
    ),
  ];
}

function problemsOf(
  entry: HistoryEntry,
  views: readonly ArchitectureView[],
  trial: ArchitectureTrial,
): readonly string[] {
  const { type, resource, object, before } = entry;
  if (type !== "MODIFIED" || before === undefined) return [`was ${type} by the controller`];
  const foreign = foreignPart(entry, trial);
  if (resource === nodes) return [...foreign, ...ofNode(object, before, { views, trial })];
  if (resource === pods) return [...foreign, ...ofPod(object, before, { views, trial })];
  if (resource === daemonSets) return [...foreign, ...ofDaemonSet(object, before, { views, trial })];
  return foreign;
}

interface Reasons {
  readonly views: readonly ArchitectureView[];
  readonly trial: ArchitectureTrial;
}

function foreignPart(
  { resource, object, before = {} }: HistoryEntry,
  { keys }: ArchitectureTrial,
): readonly string[] {
  const [is, was] = [foreignOf(resource, object, keys), foreignOf(resource, before, keys)];
  if (isDeepStrictEqual(is, was)) return [];
  return [`had foreign things touched: ${JSON.stringify(was)} → ${JSON.stringify(is)}`];
}

/** All but what Berth has in objects of this kind. */
function foreignOf(resource: Resource, object: KubeObject, keys: readonly string[]): unknown {
  const {
    resourceVersion: _v,
    managedFields: _f,
    generation: _g,
    annotations = {},
    ...meta
  } = object.metadata ?? {};
  const { [MARKS]: _marks, [GIVEN]: _given, [TEMPLATE_GENERATION]: _t, ...kept } = annotations;
  const rest = { ...object, metadata: { ...meta, annotations: kept } };
  if (resource === architecturePolicies) return { ...rest, status: 0 };
  if (resource === nodes) return { ...rest, spec: withoutTaints(object, keys) };
  if (resource === pods) {
    const { spec, status: { conditions = [], ...status } = {} } = object as Pod;
    const theirs = conditions.filter(({ type }) => type !== ARCHITECTURE_CONDITION);
    return { ...rest, spec: withoutPlacement(spec), status: { ...status, conditions: theirs } };
  }
  if (resource !== daemonSets) return object;
  const { template, ...spec } = (object as DaemonSet).spec ?? { template: {} };
  return { ...rest, spec: { ...spec, template: { ...template, spec: withoutPlacement(template.spec) } } };
}

/** What Berth records on a DaemonSet. */
const GIVEN = tolerationsAnnotation(ARCHITECTURE);
/** The API server counts versions of the template in an annotation, by itself. */
const TEMPLATE_GENERATION = "deprecated.daemonset.template.generation";

function withoutTaints(node: Node, keys: readonly string[]): object {
  const { taints = [], ...spec } = node.spec ?? {};
  return { ...spec, taints: taints.filter(({ key }) => !keys.includes(key)) };
}

function withoutPlacement(spec: object | undefined): object {
  return { ...spec, tolerations: 0, schedulingGates: 0, affinity: 0 };
}

function ofNode(is: Node, was: Node, { views, trial }: Reasons): readonly string[] {
  const problems = trial.keys.flatMap((key): readonly string[] => {
    const [before, after] = [taintsAt(was, key), taintsAt(is, key)];
    if (isDeepStrictEqual(before, after)) return [];
    const wants = (view: ArchitectureView): boolean => keysOf(view).includes(key);
    if (after.length === 0)
      return views.some((view) => !wants(view)) ? [] : [`was untainted though a policy taints with ${key}`];
    if (after.join() !== wantedTaint(was))
      return [`was tainted ${after.join()}, and is of ${wantedTaint(was)}`];
    if (!views.some(wants)) return [`was tainted though no policy does`];
    const isOver = views.some((view) => view.nodes.some((node) => isOurs(node, key)));
    // Pods and DaemonSets that are older than the policy are known to whoever knows it.
    const [first = new Set<string>(), ...others] = views.filter(wants).map((view) => uncovered(view, key));
    const surprised = others.reduce((all, one) => all.intersection(one), first);
    return isOver || surprised.size === 0
      ? []
      : [`was tainted before ${[...surprised].join(", ")} was covered`];
  });
  const standing = trial.keys
    .filter((key) => taintsAt(is, key).length > 0)
    .map((key) => `taint/${key}:NoSchedule`);
  const recorded = Object.keys(recordedOf(is)).toSorted();
  if (!isDeepStrictEqual(recorded, standing.toSorted()))
    problems.push(`records ${recorded.join(", ")} and has ${standing.join(", ")}`);
  return problems;
}

/** A node by which the bootstrap is over. */
function isOurs(node: Node, key: string): boolean {
  return taintsAt(node, key).includes(wantedTaint(node));
}

function ofPod(is: Pod, was: Pod, { views, trial }: Reasons): readonly string[] {
  if (was.spec?.nodeName !== undefined) return ["runs, and was changed"];
  const problems = [...ofTolerations(is.spec ?? NONE, was.spec ?? NONE, { views, trial })];
  const isStuck = conditionOf(is) !== undefined;
  const isSaid = conditionOf(is) === conditionOf(was);
  const isDue = (view: ArchitectureView): boolean =>
    (verdictOf(was.spec ?? NONE, governing(view)).kind === "impossible") === isStuck;
  if (!isSaid && !views.some(isDue)) problems.push(`${isStuck ? "got" : "lost"} its condition for no reason`);
  const gates = was.spec?.schedulingGates ?? [];
  const isLifted = isGated(was) && !isGated(is);
  const left = gates.filter(({ name }) => !isLifted || name !== ARCHITECTURE_GATE);
  if (!isDeepStrictEqual(is.spec?.schedulingGates ?? [], left)) problems.push("lost a gate of somebody else");
  const right = views.some((view) => {
    const policy = governing(view);
    if (!isLifted) return isDeepStrictEqual(is.spec?.affinity, was.spec?.affinity);
    const verdict = verdictOf(was.spec ?? NONE, policy);
    if (policy?.mode === "Taint" || verdict.kind === "any")
      return isDeepStrictEqual(is.spec?.affinity, was.spec?.affinity);
    if (verdict.kind !== "fits") return false;
    return isDeepStrictEqual(is.spec?.affinity, narrowed(was.spec?.affinity, verdict.architectures));
  });
  if (!right)
    problems.push(
      `was ${isLifted ? "let go" : "kept"} with the affinity ${JSON.stringify(is.spec?.affinity)}`,
    );
  return problems;
}

function ofDaemonSet(is: DaemonSet, was: DaemonSet, reasons: Reasons): readonly string[] {
  const [after, before] = [is, was].map(({ spec }) => spec?.template.spec ?? NONE);
  return ofTolerations(after ?? NONE, before ?? NONE, reasons);
}

const NONE: NonNullable<Pod["spec"]> = { containers: [] };

/** They are appended, and each for a reason; of which taint, only the story's own need one. */
function ofTolerations(is: PodSpec, was: PodSpec, { views, trial }: Reasons): readonly string[] {
  const [after, before] = [is.tolerations ?? [], was.tolerations ?? []];
  if (!isDeepStrictEqual(after.slice(0, before.length), before))
    return [`lost a toleration: ${JSON.stringify(before)} → ${JSON.stringify(after)}`];
  const texts = after.map((one) => JSON.stringify(one));
  const twice = texts
    .filter((text, at) => texts.indexOf(text) !== at)
    .map((text) => `tolerates twice ${text}`);
  const idle = after.slice(before.length).filter(({ key = "", value, operator, effect }) => {
    if (effect !== "NoSchedule") return true;
    if (key === trial.sentinelKey) return false;
    return !views.some((view) => {
      const verdict = verdictOf(was, governing(view));
      if (!keysOf(view).includes(key)) return false;
      if (verdict.kind === "fits")
        return operator === undefined && verdict.architectures.includes(value ?? "");
      return verdict.kind === "any" && operator === "Exists" && value === undefined;
    });
  });
  return [...twice, ...idle.map((one) => `was given ${JSON.stringify(one)} for no reason`)];
}

type PodSpec = NonNullable<Pod["spec"]>;

/** A taint that was put on and taken off again, or the other way round, while nobody else did anything. */
function flappingTaints(history: readonly HistoryEntry[], { keys }: ArchitectureTrial): readonly string[] {
  let made = new Map<string, string>();
  let step: string | undefined;
  return history.flatMap((entry) => {
    if (entry.by === "story" || entry.step !== step) made = new Map();
    step = entry.step;
    if (entry.by !== "controller" || entry.resource !== nodes) return [];
    return keys.flatMap((key) => {
      const [before, after] = [entry.before, entry.object].map((it: KubeObject | undefined) =>
        taintsAt(it, key).join(),
      );
      if (before === after) return [];
      const place = `${entry.name} ${key}`;
      const earlier = made.get(place);
      made.set(place, before ?? "");
      return earlier === after ? [`${place} flapped: ${before}, ${after} (${entry.step})`] : [];
    });
  });
}
