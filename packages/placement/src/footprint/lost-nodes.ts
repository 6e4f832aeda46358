/** What else footprints have to be told of nodes than what they decide of each: who has lost its node, where agents can run. */
import type { Node } from "@berth/kube";
import { type Component, createLoopComponent, type Subscribable, whenAborted } from "@berth/runtime";
import type { NodeLoss } from "./hold/decide.ts";

/**
 * Pods of a silent node cannot end by themselves: the control plane has had no heartbeat. A node that is not known counts as
 * silent: it may be new, and its pods may run. It is gone when its deletion was seen.
 */
export function lossOf(node: Node | undefined): NodeLoss | undefined {
  const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
  return node === undefined || ready?.status === "Unknown" ? "silent" : undefined;
}

/** Deleted nodes that are remembered. The pod garbage collector takes a minute for their pods; beyond, the oldest go. */
const MAX_GONE = 1000;

/** Tells when a node was lost or came back while it runs, and keeps the names of those that were deleted. @param tell must not throw. */
export function followLostNodes(
  nodes: Subscribable<Node>,
  tell: () => void,
  gone: Set<string> = new Set(),
): Component {
  return follow("footprint-lost-nodes", nodes, (before, after, name) => {
    gone.delete(name);
    const [oldest] = gone;
    if (after === undefined && gone.size >= MAX_GONE && oldest !== undefined) gone.delete(oldest);
    if (after === undefined) gone.add(name);
    if (after === undefined || lossOf(before) !== lossOf(after)) tell();
  });
}

/** Tells when nodes came or went or their taints changed while it runs: by these it is told where an agent can run. */
export function followTaints(nodes: Subscribable<Node>, tell: () => void): Component {
  const textOf = (node?: Node): string | undefined => node && JSON.stringify(node.spec?.taints ?? []);
  return follow("footprint-taints", nodes, (before, after) => {
    if (textOf(before) !== textOf(after)) tell();
  });
}

function follow(
  name: string,
  nodes: Subscribable<Node>,
  onChange: (before: Node | undefined, after: Node | undefined, name: string) => void,
): Component {
  return createLoopComponent({
    name,
    async run(signal) {
      using _subscription = nodes.subscribe({
        onChange(change) {
          const { type, object } = change;
          if (type === "added" && change.initial) return;
          const before = type === "updated" ? change.old : type === "deleted" ? object : undefined;
          onChange(before, type === "deleted" ? undefined : object, object.metadata?.name ?? "");
        },
      });
      await whenAborted(signal);
    },
  });
}
