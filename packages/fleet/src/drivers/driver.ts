/**
 * What carries the hub's deployments into cells. The hub hands over intents, and learns by facts what became of them:
 * a request that did not fail proves nothing.
 */
import type { Target } from "../api/placement.ts";
import type { DeploymentStatus, Instance, WorkloadDeployment } from "../api/workload.ts";
import type { Source } from "../hub/source.ts";

/** A deployment of the hub. */
export interface HubRef {
  readonly namespace: string;
  readonly name: string;
  /** Of the deployment in the project. */
  readonly sourceUid: string;
}

/** What should be in a cell. */
export interface Intent {
  readonly ref: HubRef;
  readonly target: Target;
  readonly deployment: WorkloadDeployment;
  /** Whether the project wants it: the driver creates and deletes by this alone. */
  readonly source: Source;
}

/** The answer to a request. `Accepted` does not mean that the cell has it: a fact `echo` does. */
export type Receipt =
  | { readonly is: "Accepted" }
  | { readonly is: "Deferred"; readonly reason: "Unreachable" | "Throttled"; readonly retryAfterMs: number }
  | {
      readonly is: "Rejected";
      readonly reason:
        | "Conflict"
        | "Invalid"
        | "Forbidden"
        | "NoApi"
        | "TooLarge"
        | "CellMutates"
        | "WrongIdentity";
      readonly message: string;
    };

/** What was seen in a cell. Facts of one cell keep their order. */
export type Fact =
  | {
      readonly is: "echo";
      readonly ref: HubRef;
      readonly target: Target;
      readonly generation: number;
      readonly digest: string;
    }
  | {
      readonly is: "status";
      readonly ref: HubRef;
      readonly target: Target;
      readonly status: DeploymentStatus;
    }
  | { readonly is: "instance"; readonly ref: HubRef; readonly target: Target; readonly instance: Instance }
  | { readonly is: "instanceGone"; readonly ref: HubRef; readonly target: Target; readonly name: string }
  /** Proven: an uncached read did not find it, and the cell renewed its Lease after the decision to ask. */
  | { readonly is: "gone"; readonly ref: HubRef; readonly target: Target }
  | {
      readonly is: "heard" | "away";
      readonly cellUid: string;
      readonly sinceMs: number;
      readonly message: string;
    }
  /** Everything was read: absence means absence from now on. */
  | { readonly is: "synced"; readonly cellUid: string };

/** What one intent would do. */
export interface PlanItem {
  readonly ref: HubRef;
  readonly target: Target;
  readonly does: "create" | "patch" | "delete" | "nothing" | "wait";
  readonly why: string;
}

export interface Driver {
  readonly caps: {
    readonly transport: "push" | "pull";
    /** `withdrawal`: what cannot be deleted now is remembered in objects of the hub. */
    readonly deletion: "withdrawal" | "own";
    /** Largest deployment, bytes. */
    readonly maxBytes: number;
    /** Until a silent cell is reported, ms. */
    readonly detectionMs: number;
  };
  /** Brings the cell to the intent. The same intent may come again. */
  apply(intent: Intent, signal: AbortSignal): Promise<Receipt>;
  /** Deletes from the cell what has this source and at most this epoch. */
  withdraw(ref: HubRef, target: Target, signal: AbortSignal): Promise<Receipt>;
  facts(signal: AbortSignal): AsyncIterable<Fact>;
  /** Changes nothing. */
  plan(intents: readonly Intent[]): Promise<readonly PlanItem[]>;
}
