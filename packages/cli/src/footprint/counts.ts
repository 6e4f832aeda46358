/** How many nodes each footprint concerns, and whether that is true of all of them yet. */
import type { Node } from "@berth/kube";
import { FirstPass, type FootprintCounts, FootprintTally, type NodeObserver } from "@berth/placement";
import type { Clock, Informer } from "@berth/runtime";

export interface NodeCountsOptions {
  readonly nodes: Informer<Node>;
  readonly clock: Clock;
  /** The counts of this footprint have changed, or all of them have become true. Must not throw. */
  readonly onChange: (rule?: string) => void;
}

export interface NodeCounts {
  readonly tally: FootprintTally;
  /** Hears of what the node writer decides. */
  readonly observer: NodeObserver;
  /** Was each node looked at by the footprints in force? */
  readonly done: boolean;
  /** `undefined` until then. */
  of(rule: string): FootprintCounts | undefined;
  /** Other footprints are in force: each node has to be looked at again. */
  begin(): void;
  /** Nodes have become known. */
  check(): void;
}

export function createNodeCounts({ nodes, clock, onChange }: NodeCountsOptions): NodeCounts {
  const tally = new FootprintTally({ onChange, monotonic: () => clock.monotonic() });
  const begin = (): FirstPass => new FirstPass({ nodes, onDone: () => onChange() });
  let pass = begin();
  return {
    tally,
    observer: {
      decided(name, outcome) {
        tally.decided(name, outcome);
        pass.decided(name);
      },
      gone(name) {
        tally.gone(name);
        pass.gone(name);
      },
    },
    get done() {
      return pass.done;
    },
    of: (rule) => (pass.done ? tally.counts(rule) : undefined),
    begin() {
      pass = begin();
    },
    check: () => pass.check(),
  };
}
