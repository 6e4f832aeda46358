/** The copy on the hub of an Instance that the cell itself writes there. Pure. */
import type { Finding } from "@berth/host";
import { isReflection } from "../../api/elsewhere.ts";
import { annotations as keys, labels } from "../../api/keys.ts";
import { isOwnedBy, ownerOf } from "../../api/owner.ts";
import type { Seen } from "../../api/seen.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import { isDeleting, sourceUidOf } from "../source.ts";
import { buildCopy, type CopyOrigin } from "./copy.ts";
import { type Corrections, corrections, mayBecome } from "./corrections.ts";

export interface WriteBackView extends Pick<CopyOrigin, "namespaceLabels" | "cellUid"> {
  /** In the cell. `unknown`: it is not read. */
  readonly instance: Seen<Instance>;
  /** Its deployment in the cell. */
  readonly deployment: WorkloadDeployment | undefined;
  /** On the hub, with the name of that. */
  readonly hubDeployment: WorkloadDeployment | undefined;
  readonly copy: Instance | undefined;
}

/** Empty: settled, or not this cell's to write. */
export interface WriteBackDecision extends Corrections {
  readonly create?: Instance;
  /** Bound to the uid. */
  readonly delete?: Instance;
  readonly findings: readonly Finding[];
}

const settled: WriteBackDecision = Object.freeze({ findings: [] });

/** The first row that fits. */
export function decideWriteBack(view: WriteBackView): WriteBackDecision {
  const { instance, copy, deployment, hubDeployment, namespaceLabels, cellUid } = view;
  if (instance.is === "unknown" || (copy !== undefined && isDeleting(copy))) return settled;
  const writer = copy?.metadata?.annotations?.[keys.cellUid];
  const isOwn = copy !== undefined && writer === cellUid;
  if (instance.is === "none") return isOwn ? { ...settled, delete: copy } : settled;
  // Without its deployment on the hub the copy would stay for ever: the collector deletes copies with it.
  if (deployment === undefined || hubDeployment === undefined || isDeleting(hubDeployment)) return settled;
  if (isReflection(instance.value)) return settled;
  const missing = [labels.upstreamCluster, labels.upstreamNamespace].find((key) => !namespaceLabels[key]);
  if (missing !== undefined)
    return found("IdentityMissing", `the namespace on the hub has no label ${missing}: it is not copied`);
  if (writer !== undefined && !isOwn)
    return found("NameTaken", `another cell has an Instance of this name on the hub: ${writer}`);
  const wanted = buildCopy(instance.value, { hubDeployment, namespaceLabels, deployment, cellUid });
  if (copy === undefined) return { ...settled, create: wanted };
  // One of an earlier deployment of the name goes with that.
  if (ownerOf(copy) !== undefined && !isOwnedBy(copy, hubDeployment)) return settled;
  const source = sourceUidOf(copy);
  const isSame = source === undefined || source === instance.value.metadata?.uid;
  if (!isSame || !mayBecome(copy, wanted)) return { ...settled, delete: copy };
  const { patch, ...rest } = corrections(copy, wanted);
  // Copies of the original name neither their cell nor, in earlier releases, their deployment.
  if (source !== undefined && ownerOf(copy) !== undefined) return { ...settled, patch, ...rest };
  const { labels: own, annotations, ownerReferences } = wanted.metadata ?? {};
  return {
    ...settled,
    ...rest,
    patch: { ...patch, metadata: { labels: own, annotations, ownerReferences } },
  };
}

function found(reason: string, message: string): WriteBackDecision {
  return { findings: [{ reason, message }] };
}
