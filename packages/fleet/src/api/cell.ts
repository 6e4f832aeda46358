/** `Cell` and `Withdrawal` on the wire. Both are in the cluster that Berth runs in. `kinds/` has their schemas. */
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import { BERTH_GROUP as group, BERTH_VERSION as version } from "./group.ts";

export interface CellSpec {
  /** The code of the city that it serves. Immutable. */
  readonly city: string;
  /** A Secret in Berth's namespace, with a kubeconfig under the key `kubeconfig`. */
  readonly secretRef: { readonly name: string };
  /** The uid of the cluster: that of its namespace `identityNamespace`. Immutable. */
  readonly uid: string;
  /** Default `kube-system`. */
  readonly identityNamespace?: string;
  /** Berth's namespace there: its Lease is in it. Default: the name of that in Berth's own cluster. */
  readonly namespace?: string;
  /** Its deployments move to other cells of the city, and it takes no new ones. Default false. */
  readonly drain?: boolean;
  /** The operator says that the cell never comes back. */
  readonly forgotten?: boolean;
  /** Orphans of this cell that are of what the project has under their names now. */
  readonly adopt?: readonly OrphanId[];
}

/** One placement of a deployment. */
export interface OrphanId {
  /** In the cell and on the hub. */
  readonly namespace: string;
  readonly name: string;
  /** The source that the hub made it for. */
  readonly sourceUid: string;
  readonly epoch: number;
}

/** A deployment in a cell that this hub made, and that nothing stands for. */
export interface Orphan extends OrphanId {
  /** Its first ordinal. */
  readonly start: number;
  /** `acme/web/default/hello-us-dfw`, where it was in its project. Absent: the cell does not say it. */
  readonly of?: string;
  /** A later placement is known, so it wants no Instances. */
  readonly held?: boolean;
}

/** As many orphans are named in the status of a Cell. */
export const MOST_NAMED = 100;

/** The deployment of an orphan, in this placement. */
export function isSameOrphan(one: OrphanId, other: OrphanId): boolean {
  return (
    one.namespace === other.namespace &&
    one.name === other.name &&
    one.sourceUid === other.sourceUid &&
    one.epoch === other.epoch
  );
}

export interface CellStatus {
  readonly conditions?: readonly Condition[];
  readonly observedGeneration?: number;
  /** When it was last heard, RFC 3339. Only while it is not heard. */
  readonly since?: string;
  /** Absent: none. */
  readonly orphans?: {
    readonly count: number;
    /** The first ones. */
    readonly names: readonly Orphan[];
  };
}

/** A cluster that runs Instances. Its name is also that of its Lease and of `--cell`. */
export interface Cell extends KubeObject {
  readonly spec?: CellSpec;
  readonly status?: CellStatus;
}

export const cells: Resource<Cell> = defineResource({
  group,
  version,
  plural: "cells",
  kind: "Cell",
  namespaced: false,
});

/** All of it is immutable. */
export interface WithdrawalSpec {
  readonly cell: string;
  readonly cellUid: string;
  /** Of the deployment, in the hub and in the cell. */
  readonly namespace: string;
  readonly name: string;
  /** Of the deployment in the project. Nothing of another source is deleted. */
  readonly sourceUid: string;
  /** Epochs above it stay. Absent: it is not known which there are, and all go. */
  readonly epoch?: number;
  /** The first ordinal that stays reserved meanwhile. Absent: any may be in use. */
  readonly start?: number;
}

/** A deployment that must go from a cell which did not answer. It outlives the hub's objects. */
export interface Withdrawal extends KubeObject {
  readonly spec?: WithdrawalSpec;
}

export const withdrawals: Resource<Withdrawal> = defineResource({
  group,
  version,
  plural: "withdrawals",
  kind: "Withdrawal",
  namespaced: false,
});

/** One for each source and cell. */
export function withdrawalName({
  sourceUid,
  cellUid,
}: Pick<WithdrawalSpec, "sourceUid" | "cellUid">): string {
  return `${sourceUid}.${cellUid}`;
}

export function buildWithdrawal(spec: WithdrawalSpec): Withdrawal {
  return {
    apiVersion: `${group}/${version}`,
    kind: "Withdrawal",
    metadata: { name: withdrawalName(spec) },
    spec,
  };
}
