/** Data beyond the node that footprints read. Reads are quick and without effect; `undefined` means "not known yet". */
import type { Pod } from "@berth/kube";
import type { DaemonSetObservations } from "../node/daemonsets.ts";
import type { Footprint, GroupVersionResource } from "./footprint.ts";

/** Identity of an owner of any kind. */
export interface OwnerIdentity {
  readonly group: string;
  readonly kind: string;
  /** Plural name of its resource, as in API paths: `deployments`. */
  readonly resource: string;
  readonly name: string;
  readonly uid: string;
  /** Its own controller, of a built-in workload kind, is gone: the garbage collector deletes it soon. Default false. */
  readonly isAbandoned?: boolean;
}

export interface FootprintObservations extends DaemonSetObservations {
  /**
   * Pods on this node that may need the agent of this footprint, selected only by labels and node name. Includes pods
   * that are ending. May omit pods in a phase that no workload counts. Reads from memory.
   */
  pods(footprint: Footprint, node: string): readonly Pod[] | undefined;
  /** `null`: there is none of this name. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined;
  /**
   * Controllers of a pod, from the nearest to the farthest; empty when it has none. A deleted controller ends the list.
   * `undefined` while Berth has not read one of them: Berth reads it, and then checks the node again.
   */
  owners(pod: Pod): readonly OwnerIdentity[] | undefined;
  /** The CSI driver of the volume behind a claim; `null` when there is no such claim, volume or driver. */
  driverOfClaim(namespace: string, claim: string): string | null | undefined;
}

/** An object that owns pods, with what a hold needs to know. */
export interface HeldOwner {
  readonly resource: GroupVersionResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly finalizers: readonly string[];
  readonly deletionTimestamp?: string;
}
