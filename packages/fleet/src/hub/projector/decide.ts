/** The Instance that a project sees. Pure. It ends with its source, and not because a plane is away. */
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import { annotations as keys, labels } from "../../api/keys.ts";
import { isOwnedBy, ownerOf } from "../../api/owner.ts";
import type { Seen } from "../../api/seen.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import { type Corrections, corrections, mayBecome } from "../collect/corrections.ts";
import { isDeleting, sourceUidOf } from "../source.ts";

export interface ProjectionView {
  /** In the project, of the copy's or the projection's label. `undefined`: the project is synced and has none. */
  readonly deployment: WorkloadDeployment | undefined;
  /** On the hub: the copy, and the deployment that controls it. `unknown`: the hub is not synced. */
  readonly copy: Seen<Instance>;
  readonly hubDeployment: Seen<WorkloadDeployment>;
  /** Whether the cell where the deployment is placed has the Instance. `unknown`: it is not synced, or not known. */
  readonly inCell: Seen<Instance>;
  /** In the project. */
  readonly projection: Instance | undefined;
}

export interface ProjectionDecision extends Corrections {
  readonly create?: Instance | undefined;
  /** Bound to the uid. */
  readonly delete?: Instance | undefined;
}

export function decideProjection(view: ProjectionView): ProjectionDecision {
  const { deployment, copy, hubDeployment, projection } = view;
  const isOurs = projection !== undefined && isProjection(projection, deployment);
  if (projection !== undefined && (!isOurs || isDeleting(projection))) return {};
  if (copy.is === "unknown" || hubDeployment.is === "unknown") return {};
  if (copy.is === "none") return projection !== undefined && hasEnded(view) ? { delete: projection } : {};
  if (deployment === undefined || isDeleting(deployment) || isDeleting(copy.value)) return {};
  if (!isShown(deployment, copy.value, hubDeployment)) return {};
  const wanted = projectionOf(deployment, copy.value);
  if (projection === undefined) return { create: wanted };
  if (!names(projection, deployment) || !mayBecome(projection, wanted)) return { delete: projection };
  const { patch, ...rest } = corrections(projection, wanted);
  if (isOwnedBy(projection, deployment)) return { patch, ...rest };
  const { labels: own, ownerReferences } = wanted.metadata ?? {};
  return { patch: { ...patch, metadata: { labels: own, ownerReferences } }, ...rest };
}

/**
 * An Instance without this label is not ours, whatever its name is. The original marks its own by the project, and they name
 * their deployment as an owner that does not control them.
 */
function isProjection(it: Instance, deployment: WorkloadDeployment | undefined): boolean {
  const { labels: found, finalizers = [] } = it.metadata ?? {};
  if (found?.[labels.hubUid] !== undefined) return true;
  const isMarked = found?.[labels.upstreamCluster] !== undefined && finalizers.length === 0;
  return isMarked && deployment !== undefined && names(it, deployment);
}

function names({ metadata }: Instance, { metadata: owner }: WorkloadDeployment): boolean {
  return metadata?.ownerReferences?.some(({ uid }) => uid === owner?.uid) === true;
}

/** The hub has its deployment, and neither it nor the cell has the Instance. Without the deployment, the hub may have lost both. */
function hasEnded({ deployment, hubDeployment, inCell }: ProjectionView): boolean {
  // The collector deletes it too, unless its owner was gone before it came.
  if (deployment === undefined) return true;
  if (inCell.is !== "none" || hubDeployment.is !== "there") return false;
  return sourceUidOf(hubDeployment.value) === deployment.metadata?.uid;
}

/** A copy counts in the namespace that the project's deployment names, under the hub's deployment for that very one. */
function isShown(deployment: WorkloadDeployment, copy: Instance, hub: Seen<WorkloadDeployment>): boolean {
  return (
    copy.metadata?.namespace === deployment.metadata?.annotations?.[keys.federationNamespace] &&
    hub.is === "there" &&
    (isOwnedBy(copy, hub.value) || isOfOriginal(copy)) &&
    sourceUidOf(hub.value) === deployment.metadata?.uid
  );
}

/** Earlier releases of the original write copies without an owner. */
function isOfOriginal(copy: Instance): boolean {
  return ownerOf(copy) === undefined && copy.metadata?.annotations?.[keys.cellUid] === undefined;
}

function projectionOf(deployment: WorkloadDeployment, copy: Instance): Instance {
  const {
    name = "",
    labels: theirs = {},
    namespace: hubNamespace = "",
    uid: hubUid = "",
  } = copy.metadata ?? {};
  const { namespace, name: own = "", uid = "" } = deployment.metadata ?? {};
  const { [labels.upstreamCluster]: _cluster, [labels.upstreamNamespace]: _namespace, ...compute } = theirs;
  const apiVersion = `${COMPUTE_GROUP}/${COMPUTE_VERSION}`;
  return {
    apiVersion,
    kind: "Instance",
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { ...compute, [labels.hubNamespace]: hubNamespace, [labels.hubUid]: hubUid },
      ownerReferences: [{ apiVersion, kind: "WorkloadDeployment", name: own, uid, controller: true }],
    },
    ...(copy.spec && { spec: copy.spec }),
    ...(copy.status && { status: copy.status }),
  };
}
