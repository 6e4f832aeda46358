/** DeschedulePolicies in force. */

import type { DocumentFault } from "@berth/host";
import type { Silencing } from "../api/warnings.ts";
import type { DeschedulePolicySpec } from "./document.ts";

/** Recorded nowhere on objects: this capability sets no marks. */
export const DESCHEDULE = "deschedule";

export interface DeschedulePolicyInForce extends Silencing {
  /** `config/default`. */
  readonly rule: string;
  readonly name: string;
  readonly spec: DeschedulePolicySpec;
  readonly forMs: number;
  readonly minAgeMs: number;
}

export interface DeschedulePolicies {
  /** In the order in which they are asked about a pod: files before the cluster, then the oldest first. */
  readonly policies: readonly DeschedulePolicyInForce[];
  readonly faults: readonly DocumentFault[];
}
