/** Whether a project wants a deployment of the hub. All deletions in cells follow from this, and from nothing else. */
import type { KubeObject } from "@berth/kube";
import { annotations as keys } from "../api/keys.ts";
import type { Signer } from "../api/origin.ts";
import { type CellPlacement, parsePlacement } from "../api/placement.ts";
import type { WorkloadDeployment } from "../api/workload.ts";

/** `unknown`: nothing may be created or deleted in a cell. */
export type Source = "live" | "deleting" | "gone" | "unknown";

/** A project as it is seen now. */
export interface ProjectSeen {
  /** Its path: `acme/web`, or the name alone. */
  readonly path: string;
  /** Read on the connection of its deployments, after their list. */
  readonly uid: string;
  /** All its deployments have been read, and its API server answers. */
  readonly isSynced: boolean;
}

export interface SourceView {
  /** Of the deployment on the hub or in a cell. */
  readonly sourceUid: string;
  /** The project that its namespace on the hub is of. `undefined`: another program made that, and only its name counts. */
  readonly projectUid: string | undefined;
  /** The project that has this name now. `undefined`: there is none, or it is not connected. */
  readonly project: ProjectSeen | undefined;
  /** The namespace on the hub is named after the uid of this one in the project. Labels can be edited, a name cannot. */
  readonly isOfNamespace: boolean;
  /** In the project, under that name. */
  readonly deployment: WorkloadDeployment | undefined;
  /** The view may lag behind. A deletion was seen, or an uncached read did not find the source. */
  readonly isAbsenceProven: boolean;
}

export function sourceOf(view: SourceView): Source {
  const { sourceUid, projectUid, project, isOfNamespace, deployment, isAbsenceProven } = view;
  if (
    project === undefined ||
    (projectUid ?? project.uid) !== project.uid ||
    !project.isSynced ||
    !isOfNamespace
  )
    return "unknown";
  if (deployment?.metadata?.uid !== sourceUid) return isAbsenceProven ? "gone" : "unknown";
  return deployment.metadata.deletionTimestamp === undefined ? "live" : "deleting";
}

/** Of a deployment on the hub. */
export function sourceUidOf({ metadata }: KubeObject): string | undefined {
  return metadata?.annotations?.[keys.sourceUid];
}

/**
 * Of a deployment in a project: where the hub had it, if its deployment was deleted there. It may be older than what is.
 * Users of the project can write it: without the signature of the hub they could choose a cell that is closed to them.
 */
export function recordOf(source: KubeObject, signer: Pick<Signer, "signRecord">): CellPlacement | undefined {
  return parsePlacement(recordText(source, signer));
}

/** The same as text. */
export function recordText({ metadata }: KubeObject, signer: Pick<Signer, "signRecord">): string | undefined {
  const { [keys.placement]: text, [keys.signature]: signature } = metadata?.annotations ?? {};
  if (text === undefined) return undefined;
  return signer.signRecord(metadata?.uid ?? "", text) === signature ? text : undefined;
}

export function recordAnnotations(
  { metadata }: KubeObject,
  placement: string,
  signer: Pick<Signer, "signRecord">,
): Readonly<Record<string, string>> {
  return {
    [keys.placement]: placement,
    [keys.signature]: signer.signRecord(metadata?.uid ?? "", placement),
  };
}

export function isDeleting({ metadata }: KubeObject): boolean {
  return metadata?.deletionTimestamp !== undefined;
}
