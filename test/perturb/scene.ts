/** What the scenes of all stories have in common: documents, what stands, a sentinel for labels, and steps that end. */
import {
  apiVersionOf,
  isApiError,
  type KubeObject,
  type Node,
  nodes,
  type Patch,
  type Resource,
  type Taint,
} from "@berth/kube";
import { type LabelRule, labelRules } from "@berth/placement";
import { aNode, type NodeBuilder, NUDGE, type Scene, type Stage, type Step } from "@berth/testcluster";
import { recordedOf } from "./gate-oracle.ts";
import { MARKS } from "./node-scene.ts";

/** The name of the objects that show how far Berth has come. */
export const SENTINEL = "sentinel";

export const merge = (body: object): Patch => ({ type: "merge", body });
export const STATUS = { subresource: "status" } as const;

/** An object of Berth's kinds, as a user writes it. */
export function document<T extends KubeObject>(resource: Resource<T>, name: string, spec: object): T {
  const { kind } = resource;
  return { apiVersion: apiVersionOf(resource), kind, metadata: { name }, spec } as unknown as T;
}

/** Those that there are, by local name. */
export function present<T extends KubeObject>(
  stage: Stage,
  resource: Resource<T>,
  names: readonly string[] = [],
): readonly T[] {
  return names.flatMap((name) => stage.latest(resource, name) ?? []);
}

/** The state of each of these, by local name; one that is not there is `absent`. */
export function statesOf<T extends KubeObject>(
  stage: Stage,
  resource: Resource<T>,
  names: readonly string[],
  toState: (object: T) => unknown,
): readonly (readonly [string, unknown])[] {
  return names.map((name) => {
    const object = stage.latest(resource, name);
    return [name, object === undefined ? "absent" : toState(object)];
  });
}

/** The same objects without this field. */
export function without(objects: unknown, field: string): readonly unknown[] {
  const rest = (object: object): unknown =>
    Object.fromEntries(Object.entries(object).filter(([key]) => key !== field));
  return (objects as readonly object[]).map(rest);
}

/** What a document says of itself, without times. */
export function statusOf({ status }: { readonly status?: object }): Readonly<Record<string, unknown>> {
  const { conditions = [], ...counts } = (status ?? {}) as { readonly conditions?: readonly object[] };
  return { ...counts, conditions: without(conditions, "lastTransitionTime") };
}

/** As users see the node, and what Berth has recorded of it. */
export function stateOfNode(node: Node): Readonly<Record<string, unknown>> {
  const { metadata, spec } = node;
  const { labels, annotations: { [NUDGE]: _nudge, [MARKS]: _marks, ...annotations } = {} } = metadata ?? {};
  const { taints = [], ...rest } = spec ?? {};
  const sorted = taints.map(({ key, value, effect }) => `${key}=${value}:${effect}`).toSorted();
  return { labels, annotations, record: recordedOf(node), taints: sorted, spec: rest };
}

/** Without what makes names of this run unlike others. */
export function localized(stage: Stage, state: unknown): unknown {
  return JSON.parse(JSON.stringify(state).replaceAll(stage.nameOf(""), ""));
}

/** The steps of a story, each of which is over when nothing is left to do. */
export function stepsUntil(steps: readonly Step[], isSettled: () => boolean): readonly Step[] {
  return steps.map((step) => ({ ...step, over: () => isSettled() && (step.over?.() ?? true) }));
}

/** Their names, the start included. */
export const namesOf = (steps: readonly Step[]): readonly string[] => [
  "start",
  ...steps.map(({ name }) => name),
];

/** The same steps; the returned function tells which has begun last. */
export function noted(steps: readonly Step[]): readonly [readonly Step[], () => string] {
  let current = "start";
  const noting = steps.map((step) => ({
    ...step,
    run() {
      current = step.name;
      return step.run();
    },
  }));
  return [noting, () => current];
}

/** Which nodes have a label, which another one. @param removalDelay Of no consequence: it makes a new version. */
export function sentinelRule(removalDelay = "0s"): LabelRule {
  return document(labelRules, SENTINEL, {
    match: { all: [{ key: "sentinel/input" }] },
    labels: [{ key: "sentinel/output" }],
    removalDelay,
  });
}

export interface LabelSentinel {
  /** How often it was changed. */
  readonly round: () => number;
  readonly change: () => Promise<void>;
  readonly answered: () => boolean;
}

/** A label rule and its node, which answer for the watch of nodes: the label comes and goes by turns. */
export async function createLabelSentinel(
  stage: Stage,
  node: NodeBuilder = aNode(SENTINEL),
): Promise<LabelSentinel> {
  let round = 0;
  await stage.create(nodes, node.build());
  await stage.create(labelRules, sentinelRule());
  return {
    round: () => round,
    async change() {
      round += 1;
      const labels = { "sentinel/input": round % 2 === 0 ? null : "true" };
      await stage.patch(nodes, SENTINEL, merge({ metadata: { labels } }));
    },
    answered() {
      const { labels = {} } = stage.latest(nodes, SENTINEL)?.metadata ?? {};
      return (labels["sentinel/output"] !== undefined) === (round % 2 === 1);
    },
  };
}

/** Has Berth said something of this version of the sentinel's document? */
export function isObserved(stage: Stage, resource: Resource): boolean {
  const { metadata, status } = (stage.latest(resource, SENTINEL) ?? {}) as KubeObject & {
    readonly status?: { readonly observedGeneration?: number };
  };
  return status?.observedGeneration === metadata?.generation;
}

export type Guides = NonNullable<Scene["fence"]["guides"]>;

/** Edits the list of taints as it stands, whoever writes at the same time: guarded, for a list is written as a whole. */
export async function editTaints(
  stage: Stage,
  node: string,
  edit: (taints: readonly Taint[]) => readonly Taint[],
): Promise<void> {
  for (;;) {
    const { metadata, spec } = await stage.cluster.client.get(nodes, { name: stage.nameOf(node) });
    const { resourceVersion } = metadata ?? {};
    const body = { metadata: { resourceVersion }, spec: { taints: edit(spec?.taints ?? []) } };
    try {
      await stage.patch(nodes, node, merge(body));
      return;
    } catch (error) {
      if (!isApiError(error, "conflict")) throw error;
    }
  }
}
