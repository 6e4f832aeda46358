/** Nodes that came without the taint though everything said that it would be put on. */
import type { Node } from "@berth/kube";
import { type Gates, isGatedAtCreation, standingValue } from "@berth/placement";
import { type Component, createLoopComponent, type Subscribable, whenAborted } from "@berth/runtime";

export interface MissWatchOptions {
  readonly nodes: Subscribable<Node>;
  readonly gates: () => Gates | undefined;
  /** Has what puts the taint on been in order for long enough to be relied upon? */
  readonly isRelied: () => boolean;
  readonly onChange: () => void;
}

export interface MissWatch {
  readonly component: Component;
  /** In words; `undefined` when the last node that came had its taint. */
  problem(): string | undefined;
}

/**
 * The API server says nothing when a policy does not act: its feature may be switched off, or somebody may have added a
 * condition to it. A node that comes without the taint tells, until one comes with it.
 */
export function createMissWatch({ nodes, gates, isRelied, onChange }: MissWatchOptions): MissWatch {
  let missed: string | undefined;
  const look = (node: Node): void => {
    const concerned = (gates()?.gates ?? []).filter((gate) => isGatedAtCreation(gate, node));
    if (concerned.length === 0 || !isRelied()) return;
    const gate = concerned.find(({ taintId }) => standingValue(node, taintId) === undefined);
    const before = missed;
    missed =
      gate &&
      `${node.metadata?.name ?? "a node"} came without the taint of ${gate.name}: is the admission plugin or feature ` +
        "of the API server switched off, or was the policy or webhook changed by somebody?";
    if ((missed === undefined) !== (before === undefined)) onChange();
  };
  const component = createLoopComponent({
    name: "admission-misses",
    async run(signal) {
      using _subscribed = nodes.subscribe({
        onChange(change) {
          if (change.type === "added" && !change.initial) look(change.object);
        },
      });
      await whenAborted(signal);
    },
  });
  return { component, problem: () => missed };
}
