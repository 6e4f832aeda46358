/** What footprints see beyond the node. Reads are quick and without effect; `undefined` is always "not known yet". */
import type { InformerSetOptions } from "@berth/host";
import type { DaemonSet, KubeObject, Pod } from "@berth/kube";
import type { Footprint, GroupVersionResource } from "./footprint.ts";

/** What all that watches is made of. */
export type Watching = Pick<
  InformerSetOptions<KubeObject>,
  "client" | "cluster" | "clock" | "log" | "metrics"
>;

/** Of one object, whatever its kind. */
export interface OwnerIdentity {
  readonly group: string;
  readonly kind: string;
  /** As paths name its resource: `deployments`. */
  readonly resource: string;
  readonly name: string;
  readonly uid: string;
  /** What has made it, of a kind that Kubernetes makes pods with, is gone: the garbage collector ends it soon. Default false. */
  readonly isAbandoned?: boolean;
}

export interface FootprintSight {
  /**
   * Pods that may need the agent of this footprint on this node: what labels can select, and the node's name. Those that end
   * are among them; those in a phase that none of its workloads counts need not be. Read from memory.
   */
  pods(footprint: Footprint, node: string): readonly Pod[] | undefined;
  /** `null`: there is none of this name. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined;
  /**
   * Controllers of a pod, from the nearest to the farthest that exists; empty when it has none. One that is gone ends the
   * list. `undefined` while one of them has not been read: it is being read, and the node is looked at again.
   */
  owners(pod: Pod): readonly OwnerIdentity[] | undefined;
  /** The CSI driver of the volume behind a claim; `null` when there is no such claim, volume or driver. */
  driverOfClaim(namespace: string, claim: string): string | null | undefined;
  /** `null`: there is none. */
  daemonSet(namespace: string, name: string): DaemonSet | null | undefined;
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
