/** What all stories about labels of nodes have in common: actor, the state of a node, and what it may not claim. */
import { type Node, nodes } from "@berth/kube";
import { aNode, type HistoryEntry, keyChanges, NUDGE, type Stage } from "@berth/testcluster";
import { foreignAnnotations, type Labels, recordedLabels } from "../oracle.ts";

/** The annotation that holds Berth's record. */
export const MARKS = "berth.dev/marks";

/** Values by key; `null` takes the key away. */
export type Edits = Readonly<Record<string, string | null>>;

/** What the steps of a story can do to nodes. */
export interface NodeActor {
  readonly add: (node: string, labels?: Labels, annotations?: Labels) => Promise<void>;
  readonly remove: (node: string) => Promise<void>;
  readonly label: (node: string, edits: Edits) => Promise<void>;
  readonly annotate: (node: string, edits: Edits) => Promise<void>;
}

export function createNodeActor(stage: Stage): NodeActor {
  const patch = async (node: string, metadata: object): Promise<void> => {
    await stage.patch(nodes, node, { type: "merge", body: { metadata } });
  };
  return {
    async add(node, labels = {}, annotations = {}) {
      await stage.create(nodes, aNode(node).labelled(labels).annotated(annotations).build());
    },
    remove: (node) => stage.remove(nodes, node),
    label: (node, labels) => patch(node, { labels }),
    annotate: (node, annotations) => patch(node, { annotations }),
  };
}

/** The node as users and Berth see it: labels, what Berth claims of them, and what is of no concern to it. */
export function stateOfNode(node: Node | undefined): unknown {
  if (node === undefined) return "absent";
  const { [NUDGE]: _nudge, ...annotations } = foreignAnnotations(node);
  return { labels: node.metadata?.labels, record: claimsOf(node), annotations, spec: node.spec };
}

/** The labels that Berth's record claims, each with its rule. A record that cannot be read is a state too. */
export function claimsOf(node: Node): Labels | string {
  try {
    return recordedLabels(node);
  } catch (error) {
    return String(error);
  }
}

/** The labels that the record does not claim. */
export function foreignLabelsOf(node: Node): Labels {
  const claims = claimsOf(node);
  if (typeof claims === "string") return node.metadata?.labels ?? {};
  return Object.fromEntries(
    Object.entries(node.metadata?.labels ?? {}).filter(([key]) => claims[key] === undefined),
  );
}

/**
 * A version that Berth made in which the record does not say exactly which labels are its own.
 *
 * @param value the only one that it sets; default any.
 */
export function unrecorded(history: readonly HistoryEntry[], value?: string): readonly string[] {
  const stands = (label: string | undefined): boolean =>
    label !== undefined && (value === undefined || label === value);
  return history.flatMap((entry) => {
    if (entry.by !== "controller" || entry.type !== "MODIFIED" || entry.resource !== nodes) return [];
    const claims = claimsOf(entry.object);
    if (typeof claims === "string") return [`${entry.name}: ${claims} (${entry.step})`];
    const { labels = {} } = entry.object.metadata ?? {};
    const idle = Object.keys(claims).filter((key) => !stands(labels[key]));
    const set = keyChanges([entry]).filter(({ field, after }) => field === "label" && after !== undefined);
    const unclaimed = set.map(({ key }) => key).filter((key) => claims[key] === undefined);
    return [
      ...idle.map((key) => `${entry.name}: ${key} is recorded and does not stand (${entry.step})`),
      ...unclaimed.map((key) => `${entry.name}: ${key} was set and not recorded (${entry.step})`),
    ];
  });
}
