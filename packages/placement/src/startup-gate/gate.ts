/** A `StartupGate` document prepared for use, and the facts about one node that a decision needs. Plain data. */

import type { DocumentFault } from "@berth/host";
import type { Node, Pod } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Annotated, Silencing } from "../api/warnings.ts";
import type { Instant, Policy } from "../node/capability.ts";
import type { DaemonSetObservations } from "../node/daemonsets.ts";
import type { MarkId } from "../node/mark.ts";
import type { StartupGateSpec } from "./document.ts";

/** The name of the capability, recorded on nodes. */
export const GATES = "gates";

/** A document whose `spec` has passed the schema. */
export interface GateDocument extends Annotated {
  readonly name: string;
  readonly spec: StartupGateSpec;
}

export interface Gate extends Silencing {
  /** As recorded on nodes: `cluster/network`, `config/network`. */
  readonly rule: string;
  readonly name: string;
  readonly spec: StartupGateSpec;
  readonly taintId: MarkId;
  /** The annotation that stores the hold: `state.ts`. */
  readonly stateId: MarkId;
  readonly completedId?: MarkId;
  readonly stableForMs: number;
  readonly minimumHoldMs: number;
  readonly noPodMs?: number;
  readonly notReadyMs?: number;
  readonly backfillMs: number;
}

/** All gates in force. Each change makes a new value. */
export interface Gates {
  /** A gate comes after the gates that it waits for. */
  readonly gates: readonly Gate[];
  readonly policy: Policy;
  readonly faults: readonly DocumentFault[];
  /**
   * Gates that were in force until a moment ago, whose taints no gate in force has. Admission may still set these
   * taints for a while, and no other gate would remove them.
   */
  readonly gone?: readonly Gate[];
}

/** Pods that a signal selects, in one namespace or in all. The selector has the syntax of the API. */
export interface PodQuery {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector: string;
}

/** Sources of the signals, besides the Node itself. */
export interface GateObservations extends DaemonSetObservations {
  /** The pods of the query on this node; `undefined` while they have not been read. */
  pods(query: PodQuery, node: string): readonly Pod[] | undefined;
  /** Do the derived labels have the values of the rules? `undefined` while the rules have not been read. */
  labelsSettled(node: Node): boolean | undefined;
}

/** The boot of a node. Containers of an earlier boot do not count. */
export interface Boot {
  /** `status.nodeInfo.bootID`; empty until the node reports it. */
  readonly id: string;
  /** Only containers started at or after this moment count, by the node's clock. Absent: Berth saw no reboot. */
  readonly since?: Instant;
}

/** One signal of a gate on one node. */
export interface SignalReading {
  /** `pods kube-system startup.k8s.io/component=init`, `daemonset kube-system/cilium`, `condition Ready`, … */
  readonly signal: string;
  readonly state: "holds" | "missing" | "unknown";
  readonly reason: Reason;
  /** Why, in a sentence part: `kube-system/init-x7k is not ready: container main`. */
  readonly message: string;
  /** Start of the present state, if the object says it. */
  readonly since?: Instant;
  /** The signal waits for a pod that does not exist. */
  readonly noPod?: true;
  /** Changes whenever the basis of the signal was interrupted or replaced, though the signal holds again. */
  readonly evidence: string;
}
