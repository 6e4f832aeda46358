import { controllerReferenceTo } from "@berth/runtime";
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../api/group.ts";
import { finalizers, gates, instanceName, annotations as keys, labels } from "../api/keys.ts";
import {
  type Instance,
  type LocationReference,
  type WorkloadDeployment,
  workloadDeployments,
} from "../api/workload.ts";
import { MAX_REPLICAS } from "./control.ts";

/** What an Instance gets beside its template. */
export interface InstanceOptions {
  readonly ordinal: number;
  readonly templateHash: string;
  /** The best known; an Instance is created without one as well. */
  readonly location: LocationReference | undefined;
  /** Adds the gate `Network`. */
  readonly hasNetwork: boolean;
  /** Adds the finalizer that keeps the Instance until its claim is deleted. The gate `Quota` is there in any case. */
  readonly hasQuota: boolean;
}

/** A new Instance of the deployment. It shares no labels or annotations with the template. */
export function buildInstance(deployment: WorkloadDeployment, options: InstanceOptions): Instance {
  const { metadata, spec } = deployment;
  if (spec === undefined) throw new TypeError("a deployment without a spec has no Instances");
  const { name = "", namespace } = metadata ?? {};
  const { ordinal, templateHash, location, hasNetwork, hasQuota } = options;
  const { controller: _controller, location: _location, ...template } = spec.template.spec;
  const { labels: theirs, annotations } = spec.template.metadata ?? {};
  const apiVersion = `${COMPUTE_GROUP}/${COMPUTE_VERSION}`;
  const schedulingGates = [...(hasNetwork ? [gates.network] : []), gates.quota].map((gate) => ({
    name: gate,
  }));
  return {
    apiVersion,
    kind: "Instance",
    metadata: {
      name: instanceName(name, ordinal),
      ...(namespace !== undefined && { namespace }),
      labels: {
        ...theirs,
        [labels.instanceIndex]: String(ordinal),
        ...placeLabels(deployment),
      },
      ...(annotations && { annotations: { ...annotations } }),
      finalizers: [finalizers.instance, ...(hasQuota ? [finalizers.claim] : [])],
      ownerReferences: [controllerReferenceTo(workloadDeployments, deployment)],
    },
    spec: { ...template, ...(location && { location }), controller: { templateHash, schedulingGates } },
  };
}

/** The labels of each Instance that say where it belongs. */
export function placeLabels({ metadata, spec }: WorkloadDeployment): Readonly<Record<string, string>> {
  return {
    [labels.workloadUid]: spec?.workloadRef.uid ?? "",
    [labels.deploymentUid]: metadata?.uid ?? "",
    [labels.deploymentName]: metadata?.name ?? "",
    [labels.cityCode]: spec?.cityCode ?? "",
    [labels.workloadName]: spec?.workloadRef.name ?? "",
    [labels.placementName]: spec?.placementName ?? "",
  };
}

/** How many Instances the deployment wants: from 0 to 1000, whatever it says. An autoscaler would answer here. */
export function desiredCount(deployment: WorkloadDeployment): number {
  const isGoing = deployment.metadata?.deletionTimestamp !== undefined;
  return isGoing || isHeld(deployment) ? 0 : boundedCount(deployment);
}

/** The same for one that is neither held nor being deleted. */
export function boundedCount({ spec }: WorkloadDeployment): number {
  const wanted = Math.trunc(spec?.scaleSettings.minReplicas ?? 0);
  return Math.min(Math.max(wanted, 0), MAX_REPLICAS) || 0;
}

/** Does it stay without Instances, because its hub has a later placement elsewhere? */
export function isHeld({ metadata }: WorkloadDeployment): boolean {
  return metadata?.annotations?.[keys.hold] !== undefined;
}

/** The generation in the project of the spec that the deployment has. `undefined`: no hub brought it. */
export function sourceGeneration({ metadata }: WorkloadDeployment): number | undefined {
  const text = metadata?.annotations?.[keys.sourceGeneration] ?? "";
  return /^(?:0|[1-9]\d{0,14})$/.test(text) ? Number(text) : undefined;
}

/** The first ordinal. `undefined`: the annotation is no ordinal, and which Instances are wanted is not known. */
export function ordinalStart({ metadata }: WorkloadDeployment): number | undefined {
  const text = metadata?.annotations?.[keys.ordinalStart] ?? "0";
  return /^(?:0|[1-9]\d{0,8})$/.test(text) ? Number(text) : undefined;
}
