/** What is kept in memory of the objects of cells: see `hub/cells/kept.ts`. */
import { createSharedParts, keepFields } from "@berth/host";
import type { Namespace, Projection } from "@berth/kube";
import { annotations as keys, labels } from "../../api/keys.ts";
import { ownerOf } from "../../api/owner.ts";
import type { Instance, WorkloadDeployment } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import {
  keptDeploymentStatus,
  keptInstanceSpec,
  keptInstanceStatus,
  keptTexts,
} from "../../hub/cells/kept.ts";
import { SHARED } from "../reads.ts";

/** An answer of a cell: a page of 500 deployments with the largest templates, and as much again. */
export const MAX_CELL_ANSWER: number = 64 * 1024 * 1024;

const DEPLOYMENT_LABELS = [labels.city, labels.upstreamNamespace, labels.workloadUid];
const DEPLOYMENT_ANNOTATIONS = [
  keys.sourceGeneration,
  keys.hubUid,
  keys.sourceUid,
  keys.epoch,
  keys.ordinalStart,
  keys.signature,
  keys.hold,
];
const deploymentFields = keepFields<WorkloadDeployment>([
  "metadata.deletionTimestamp",
  "metadata.generation",
  "metadata.labels",
  "metadata.annotations",
  "spec",
  "status",
]);

/** @param onHub the deployment of the hub with that namespace and name. Equal specs share memory. */
export function cellDeployment(
  onHub: (namespace: string, name: string) => WorkloadDeployment | undefined,
): Projection<WorkloadDeployment> {
  return (object) => {
    const { metadata, spec, status, ...rest } = deploymentFields(object);
    const hub = onHub(metadata?.namespace ?? "", metadata?.name ?? "")?.spec;
    const isSame =
      typeof spec === "object" && hub !== undefined && canonicalJson(spec) === canonicalJson(hub);
    const kept = keptDeploymentStatus(status);
    return {
      ...rest,
      metadata: {
        ...metadata,
        labels: keptTexts(metadata?.labels, DEPLOYMENT_LABELS),
        annotations: keptTexts(metadata?.annotations, DEPLOYMENT_ANNOTATIONS),
      },
      ...(spec && { spec: isSame ? hub : spec }),
      ...(kept && { status: kept }),
    };
  };
}

const instanceFields = keepFields<Instance>([
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.controller",
  "spec.location",
  "status",
]);

const keptInstance: Projection<Instance> = (object) => {
  const { spec: _spec, status, metadata, ...rest } = instanceFields(object);
  const owner = ownerOf(object);
  const kept = keptInstanceStatus(status);
  // Without its template.
  return {
    ...rest,
    metadata: { ...metadata, ownerReferences: owner === undefined ? [] : [owner] },
    spec: keptInstanceSpec(object),
    ...(kept && { status: kept }),
  } as unknown as Instance;
};

export const cellInstance: Projection<Instance> = createSharedParts().after(keptInstance, SHARED);

const namespaceFields = keepFields<Namespace>([
  "metadata.labels",
  "metadata.annotations",
  "metadata.deletionTimestamp",
]);

export const cellNamespace: Projection<Namespace> = (object) => {
  const { metadata, ...rest } = namespaceFields(object);
  return {
    ...rest,
    metadata: {
      ...metadata,
      labels: keptTexts(metadata?.labels, [labels.upstreamCluster, labels.upstreamNamespace]),
      annotations: keptTexts(metadata?.annotations, [keys.upstreamCluster]),
    },
  };
};
