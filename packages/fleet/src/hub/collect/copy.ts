/** The copy on the hub of an Instance in a cell. Pure: whether the hub pulls it or the cell pushes it. */

import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import { deploymentOfInstance, annotations as keys, labels, ordinalOf } from "../../api/keys.ts";
import { isOwnedBy } from "../../api/owner.ts";
import { hasSlot, parsePlacement, targetsOf } from "../../api/placement.ts";
import type { Seen } from "../../api/seen.ts";
import type { Instance, InstanceSpec, WorkloadDeployment } from "../../api/workload.ts";
import { boundedCount } from "../../deployment/build.ts";
import { templateHash } from "../../deployment/template-hash.ts";
import { keptInstanceSpec } from "../cells/kept.ts";
import type { Found } from "../cells/seen.ts";
import { uidOf } from "../cells/seen.ts";
import { isDeleting, sourceUidOf } from "../source.ts";
import { type Corrections, corrections, mayBecome } from "./corrections.ts";

export interface CopyView {
  /** On the hub, with the namespace and the name that the Instance's deployment has. */
  readonly hubDeployment: WorkloadDeployment | undefined;
  /** Labels of the namespace on the hub: they alone say which project it is. */
  readonly namespaceLabels: Readonly<Record<string, string>>;
  /** The deployment in the cell, as this hub signed it. */
  readonly found: Found | undefined;
  /** In the cell, as far as it is kept: see `kept.ts`. `unknown`: the cell is not synced. */
  readonly instance: Seen<Instance>;
  /** Its spec in the cell, where it was read. */
  readonly spec?: InstanceSpec | undefined;
  /** On the hub. */
  readonly copy: Instance | undefined;
}

/** Empty: settled, or not the hub's to copy. */
export interface CopyDecision extends Corrections {
  /** It has a template that the hub has no more: its spec has to be read in the cell. */
  readonly read?: true | undefined;
  readonly create?: Instance | undefined;
  /** Bound to the uid. One that cannot become right is deleted first: the spec of an Instance never changes. */
  readonly delete?: Instance | undefined;
}

/**
 * What the cell says about an Instance that is not where its deployment was placed does not count, nor does one beyond those
 * that are wanted.
 */
export function decideCopy(view: CopyView): CopyDecision {
  const { hubDeployment, instance, copy } = view;
  if (instance.is === "unknown" || (copy !== undefined && isDeleting(copy))) return {};
  const wanted = instance.is === "there" ? copyOf(view, instance.value) : undefined;
  if (wanted === undefined) return copy === undefined ? {} : { delete: copy };
  // Its finalizer waits for the copies, and the collector must not race with it.
  if (hubDeployment === undefined || isDeleting(hubDeployment)) return {};
  if (copy === undefined) {
    if (!isWanted(wanted, view, hubDeployment)) return {};
    const spec = specOf(view, wanted);
    return spec === undefined ? { read: true } : { create: { ...wanted, spec } };
  }
  // The spec of an Instance never changes, whatever the cell says.
  const same = { ...wanted, ...(copy.spec && { spec: { ...copy.spec, ...wanted.spec } }) };
  const isSame = sourceUidOf(copy) === sourceUidOf(wanted) && mayBecome(copy, same);
  if (!isOwnedBy(copy, hubDeployment) || !isSame) return { delete: copy };
  return corrections(copy, same);
}

/** The template is that of the hub where the Instance was made from it. So a cell cannot have the hub store what it likes. */
function specOf({ hubDeployment, spec: read }: CopyView, { spec }: Instance): InstanceSpec | undefined {
  const { template } = hubDeployment?.spec ?? {};
  const isOfHub = template !== undefined && spec?.controller?.templateHash === templateHash(template);
  const made = isOfHub ? template.spec : read;
  return made && { ...made, ...spec };
}

/** Those beyond are on their way out. */
function isWanted({ metadata }: Instance, { found }: CopyView, hubDeployment: WorkloadDeployment): boolean {
  const { start = 0 } = found?.origin ?? {};
  return ordinalOf(metadata?.name ?? "") < start + boundedCount(hubDeployment);
}

/** Without a template. `undefined`: the deployment is not placed there, or the Instance is none of it. */
function copyOf(
  { hubDeployment, namespaceLabels, found }: CopyView,
  instance: Instance,
): Instance | undefined {
  const { name = "" } = instance.metadata ?? {};
  if (hubDeployment === undefined || found === undefined) return undefined;
  const { metadata } = hubDeployment;
  const target = targetsOf(parsePlacement(metadata?.annotations?.[keys.placement])).find(
    (it) => it.uid === uidOf(found.cell) && it.epoch === found.origin.epoch,
  );
  const isOurs =
    target !== undefined &&
    found.origin.sourceUid === sourceUidOf(hubDeployment) &&
    isOwnedBy(instance, found.deployment) &&
    deploymentOfInstance(name) === metadata?.name &&
    hasSlot(target, ordinalOf(name));
  if (!isOurs) return undefined;
  const from = { hubDeployment, namespaceLabels, deployment: found.deployment, cellUid: target.uid };
  return { ...buildCopy(instance, from), spec: keptInstanceSpec(instance) as InstanceSpec };
}

/** Where a copy is from. */
export interface CopyOrigin {
  readonly hubDeployment: WorkloadDeployment;
  readonly namespaceLabels: Readonly<Record<string, string>>;
  /** In the cell. */
  readonly deployment: WorkloadDeployment;
  readonly cellUid: string;
}

/** With the whole spec. */
export function buildCopy(instance: Instance, origin: CopyOrigin): Instance {
  const { name = "", namespace = "", uid = "" } = instance.metadata ?? {};
  const { metadata, spec } = origin.hubDeployment;
  const own = metadata?.name ?? "";
  const apiVersion = `${COMPUTE_GROUP}/${COMPUTE_VERSION}`;
  return {
    apiVersion,
    kind: "Instance",
    metadata: {
      name,
      namespace,
      labels: {
        ...origin.namespaceLabels,
        [labels.workloadUid]: spec?.workloadRef.uid ?? "",
        [labels.deploymentUid]: origin.deployment.metadata?.uid ?? "",
        [labels.deploymentName]: own,
        [labels.instanceIndex]: String(ordinalOf(name)),
        [labels.cityCode]: spec?.cityCode ?? "",
        [labels.workloadName]: spec?.workloadRef.name ?? "",
        [labels.placementName]: spec?.placementName ?? "",
      },
      annotations: { [keys.sourceUid]: uid, [keys.cellUid]: origin.cellUid },
      ownerReferences: [
        { apiVersion, kind: "WorkloadDeployment", name: own, uid: metadata?.uid ?? "", controller: true },
      ],
    },
    ...(instance.spec && { spec: instance.spec }),
    ...(instance.status && { status: instance.status }),
  };
}
