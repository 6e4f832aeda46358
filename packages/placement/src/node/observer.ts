import type { Contribution, NodeView } from "./capability.ts";
import type { Change } from "./change.ts";
import type { RemovalAssessment } from "./removals.ts";

/** The decision about one node. */
export interface NodeOutcome {
  readonly contributions: readonly Contribution[];
  /** Marks that this installation recorded. */
  readonly owned: NodeView["owned"];
  /** All wanted changes, including those that wait. */
  readonly changes: readonly Change[];
  readonly withheld: RemovalAssessment["withheld"];
}

export interface NodeObserver {
  decided?(name: string, outcome: NodeOutcome): void;
  /** Called after a write, with its changes and the contributions behind them. */
  written?(name: string, changes: readonly Change[], contributions: readonly Contribution[]): void;
  /** Called when a node is deleted, even if `decided` was never called for it. */
  gone?(name: string): void;
}

/** An observer that calls all of these, in order. */
export function tellAll(observers: readonly NodeObserver[]): NodeObserver {
  return {
    decided(name, outcome) {
      for (const observer of observers) observer.decided?.(name, outcome);
    },
    written(...about) {
      for (const observer of observers) observer.written?.(...about);
    },
    gone(name) {
      for (const observer of observers) observer.gone?.(name);
    },
  };
}
