import type { Contribution, NodeView } from "./capability.ts";
import type { Change } from "./change.ts";
import type { RemovalAssessment } from "./removals.ts";

/** What was decided about one node. */
export interface NodeOutcome {
  readonly contributions: readonly Contribution[];
  /** Marks recorded as ours. */
  readonly owned: NodeView["owned"];
  /** Everything that should change, what waits included. */
  readonly changes: readonly Change[];
  /** Removals that wait. */
  readonly withheld: RemovalAssessment["withheld"];
}

export interface NodeObserver {
  decided(name: string, outcome: NodeOutcome): void;
  /** These changes were made, decided with these contributions. */
  written?(name: string, changes: readonly Change[], contributions: readonly Contribution[]): void;
  /** Also of a node that was never decided about. */
  gone(name: string): void;
}

/** One that tells all of these, in order. */
export function tellAll(observers: readonly NodeObserver[]): NodeObserver {
  return {
    decided(name, outcome) {
      for (const observer of observers) observer.decided(name, outcome);
    },
    written(...about) {
      for (const observer of observers) observer.written?.(...about);
    },
    gone(name) {
      for (const observer of observers) observer.gone(name);
    },
  };
}
