/** Node changes that affect more than the decision on that node: lost nodes for holds, and taints for agent checks. */
import type { Node } from "@berth/kube";
import {
  type Component,
  createLoopComponent,
  isInitial,
  type Subscribable,
  whenAborted,
} from "@berth/runtime";
import type { NodeLoss } from "./hold/decide.ts";

/**
 * Pods of a silent node cannot end by themselves: the control plane receives no heartbeat. An unknown node counts as
 * silent: it may be new, and its pods may run. A node counts as gone only after Berth saw its deletion.
 */
export function lossOf(node: Node | undefined): NodeLoss | undefined {
  const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
  return node === undefined || ready?.status === "Unknown" ? "silent" : undefined;
}

/** Maximum deleted nodes in memory; Berth drops the oldest. The pod garbage collector takes a minute for their pods. */
const MAX_GONE = 1000;

/** Calls `tell` when a node is lost, deleted or back, and keeps names of deleted nodes. @param tell must not throw. */
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

/** Calls `tell` when nodes come or go or their taints change: these decide where an agent can run. */
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
          if (isInitial(change)) return;
          const before = type === "updated" ? change.old : type === "deleted" ? object : undefined;
          onChange(before, type === "deleted" ? undefined : object, object.metadata?.name ?? "");
        },
      });
      await whenAborted(signal);
    },
  });
}
