/** A `StartupGate` document made ready for use, and what is known of one node when it is decided. Plain data. */
import type { DocumentFault } from "@berth/host";
import type { DaemonSet, Node, Pod } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Instant, Policy } from "../node/capability.ts";
import type { MarkId } from "../node/mark.ts";
import type { StartupGateSpec } from "./document.ts";

/** The name of the capability, recorded on nodes. */
export const GATES = "gates";

/** A document whose `spec` has passed the schema. */
export interface GateDocument {
  readonly name: string;
  readonly spec: StartupGateSpec;
}

export interface Gate {
  /** As recorded on nodes: `cluster/network`, `config/network`. */
  readonly rule: string;
  readonly name: string;
  readonly spec: StartupGateSpec;
  readonly taintId: MarkId;
  /** The annotation with what is known of the hold: `state.ts`. */
  readonly stateId: MarkId;
  readonly completedId?: MarkId;
  readonly stableForMs: number;
  readonly minimumHoldMs: number;
  readonly noPodMs?: number;
  readonly notReadyMs?: number;
  readonly backfillMs: number;
}

/** All gates in force. A new value for each change of them. */
export interface Gates {
  /** A gate stands behind those that it waits for. */
  readonly gates: readonly Gate[];
  readonly policy: Policy;
  readonly faults: readonly DocumentFault[];
  /**
   * In force until a moment ago, with taints that no gate in force has: admission goes on for that long, and nobody else
   * would take off what it puts on.
   */
  readonly gone?: readonly Gate[];
}

/** Pods that a signal looks for: those of a namespace, or of all, with a selector as the API takes it. */
export interface PodQuery {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector: string;
}

/** What signals are read from, beyond the Node itself. */
export interface GateSight {
  /** The pods of the query on this node; `undefined` while they have not been read. */
  pods(query: PodQuery, node: string): readonly Pod[] | undefined;
  /** `undefined` while the DaemonSets have not been read; `null` when there is none of this name. */
  daemonSet(namespace: string, name: string): DaemonSet | null | undefined;
  /** Do the derived labels stand as the rules want them? `undefined` while the rules have not been read. */
  labelsSettled(node: Node): boolean | undefined;
}

/** Since when containers count: nothing of an earlier boot does. */
export interface Boot {
  /** `status.nodeInfo.bootID`; empty while the node has not said it. */
  readonly id: string;
  /** Only containers started at or after this moment, by the clock of the node. Absent: no reboot was seen. */
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
  /** Since when, where the object says it. */
  readonly since?: Instant;
  /** It waits for a pod that is not there at all. */
  readonly noPod?: true;
  /** Changes whenever what the signal goes by was interrupted or replaced, though it holds again. */
  readonly evidence: string;
}
