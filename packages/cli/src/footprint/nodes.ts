/** What else footprints have to be told of nodes than what they decide of each: who has lost its node, where agents can run. */
import type { Node } from "@berth/kube";
import type { NodeLoss } from "@berth/placement";
import {
  type Change,
  type Component,
  createLoopComponent,
  type Subscribable,
  whenAborted,
} from "@berth/runtime";

/** Deleted nodes that are remembered. The pod garbage collector takes a minute for their pods; beyond, the oldest go. */
const MAX_GONE = 1000;

/**
 * Pods of a lost node cannot end by themselves. Of a silent one the control plane has had no heartbeat. A node that is
 * not known counts as silent: it may be new, and its pods may run. It is gone when its deletion was seen.
 */
export function lossOf(node: Node | undefined): NodeLoss | undefined {
  if (node === undefined) return "silent";
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "Unknown" ? "silent" : undefined;
}

/**
 * Tells of each node that was lost or came back while it runs, and keeps the names of those that were deleted.
 *
 * @param tell Must not throw.
 */
export function followLostNodes(
  nodes: Subscribable<Node>,
  tell: (node: string) => void,
  gone: Set<string> = new Set(),
): Component {
  return follow("footprint-lost-nodes", nodes, (change) => {
    const [before, after] = statesOf(change);
    const name = change.object.metadata?.name ?? "";
    if (after !== undefined) gone.delete(name);
    else {
      const [oldest] = gone;
      if (gone.size >= MAX_GONE && oldest !== undefined) gone.delete(oldest);
      gone.add(name);
    }
    if (after === undefined || lossOf(before) !== lossOf(after)) tell(name);
  });
}

/** Tells when nodes came or went or their taints changed while it runs: by these it is told where an agent can run. */
export function followTaints(nodes: Subscribable<Node>, tell: () => void): Component {
  return follow("footprint-taints", nodes, (change) => {
    const [before, after] = statesOf(change);
    if (taintsOf(before) !== taintsOf(after)) tell();
  });
}

function follow(
  name: string,
  nodes: Subscribable<Node>,
  onChange: (change: Change<Node>) => void,
): Component {
  return createLoopComponent({
    name,
    async run(signal) {
      using _subscription = nodes.subscribe({
        onChange(change) {
          if (change.type !== "added" || !change.initial) onChange(change);
        },
      });
      await whenAborted(signal);
    },
  });
}

/** Before and after; `undefined`: it was not there, or is not any more. */
function statesOf(change: Change<Node>): readonly [Node | undefined, Node | undefined] {
  if (change.type === "added") return [undefined, change.object];
  return change.type === "deleted" ? [change.object, undefined] : [change.old, change.object];
}

function taintsOf(node: Node | undefined): string | undefined {
  return node && JSON.stringify(node.spec?.taints ?? []);
}
