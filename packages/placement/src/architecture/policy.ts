/** `ArchitecturePolicy` documents made ready for use. Plain data. */

import type { DocumentFault } from "@berth/host";
import type { Policy } from "../node/capability.ts";
import type { ArchitecturePolicySpec } from "./document.ts";

/** The name of the capability, recorded on nodes. */
export const ARCHITECTURE = "architecture";

export interface ArchitecturePolicyInForce {
  /** As recorded on nodes: `cluster/default`, `config/default`. */
  readonly rule: string;
  readonly name: string;
  readonly spec: ArchitecturePolicySpec;
  /** How long a pod may be held for its facts, ms. */
  readonly maxHoldMs: number;
  /** The user has allowed Berth to taint its nodes (`bootstrap: Confirm`). */
  readonly confirmed: boolean;
}

/** All policies in force. A new value for each change of them. */
export interface ArchitecturePolicies {
  /** By falling priority, then by name: the first that selects a pod governs it. */
  readonly policies: readonly ArchitecturePolicyInForce[];
  /** Of the node capability. */
  readonly policy: Policy;
  readonly faults: readonly DocumentFault[];
}

/** Does it put taints on nodes, and tolerations on pods? */
export function taints({ spec: { mode } }: Pick<ArchitecturePolicyInForce, "spec">): boolean {
  return mode !== "Affinity";
}

/** Does Berth refuse a new pod that can run nowhere? Otherwise Berth holds it. */
export function refusesImpossible({ spec }: Pick<ArchitecturePolicyInForce, "spec">): boolean {
  const { impossible, mode, preset } = spec;
  return (impossible ?? (mode === "Taint" || preset !== undefined ? "Hold" : "Refuse")) === "Refuse";
}

/** Does it narrow the node affinity of pods? */
export function narrows({ spec: { mode } }: Pick<ArchitecturePolicyInForce, "spec">): boolean {
  return mode !== "Taint";
}
