/** Reduces pods and pod templates to the fields that Berth reads: placement and images. */

import { type FieldMask, keepFields, pick } from "@berth/host";
import {
  type Container,
  type ObjectMeta,
  type Pod,
  type PodSpec,
  type Projection,
  pods,
  type Resource,
} from "@berth/kube";

const PLACEMENT = [
  "nodeName",
  "nodeSelector",
  "tolerations",
  "schedulingGates",
  "hostNetwork",
  "os",
  "priorityClassName",
  "serviceAccountName",
  "serviceAccount",
  "imagePullSecrets",
] as const;

/** Keep only annotations that Berth reads. Other annotations can contain whole manifests. */
const ANNOTATIONS = /^(?:berth\.dev\/|kubernetes\.io\/config\.|\w+\.alpha\.kubernetes\.io\/)/;

const EXPLAINED_CONTAINER = [
  "name",
  "image",
  "imagePullPolicy",
  "resources",
  "ports",
  "restartPolicy",
] as const;
const EXPLAINED_VOLUME = [
  "name",
  "image",
  "emptyDir",
  "hostPath",
  "persistentVolumeClaim",
  "ephemeral",
  "csi.driver",
] as const;

/** Fields of a pod that any capability explains. None of them holds a value of the pod's environment. */
const EXPLAINED: FieldMask = [
  "metadata",
  "spec.affinity",
  "spec.topologySpreadConstraints",
  "spec.priority",
  "spec.schedulerName",
  "spec.resourceClaims",
  "spec.resources",
  ...PLACEMENT.map((field) => `spec.${field}`),
  ...["containers", "initContainers", "ephemeralContainers"].flatMap((list) =>
    EXPLAINED_CONTAINER.map((field) => `spec.${list}[].${field}`),
  ),
  ...EXPLAINED_VOLUME.map((field) => `spec.volumes[].${field}`),
  "status.phase",
  "status.conditions",
];

/** The pods of `explain pod`. */
export const explainedPods: { readonly resource: Resource<Pod>; readonly project: Projection<Pod> } = {
  resource: pods,
  project: (pod) =>
    keepFields<Pod>(EXPLAINED)({ ...pod, ...(pod.metadata && { metadata: slimPodMetadata(pod.metadata) }) }),
};

/** Keeps empty lists, because patches depend on them. Callers must not read the other fields that the type promises. */
export function slimPodSpec(spec: PodSpec): PodSpec {
  const { affinity, containers, initContainers, ephemeralContainers, volumes } = spec;
  const images = (volumes ?? []).filter(({ image }) => image !== undefined);
  return {
    ...pick(spec, PLACEMENT),
    ...(affinity && { affinity: pick(affinity, ["nodeAffinity"]) }),
    containers: containers.map(slimContainer),
    ...(initContainers && { initContainers: initContainers.map(slimContainer) }),
    ...(ephemeralContainers && { ephemeralContainers: ephemeralContainers.map(slimContainer) }),
    ...(images.length > 0 && { volumes: images.map((volume) => pick(volume, ["name", "image"])) }),
  };
}

export function slimPodMetadata(metadata: ObjectMeta): ObjectMeta {
  const { annotations = {} } = metadata;
  const kept = Object.entries(annotations).filter(([key]) => ANNOTATIONS.test(key));
  return {
    ...pick(metadata, [
      "name",
      "generateName",
      "namespace",
      "uid",
      "resourceVersion",
      "creationTimestamp",
      "deletionTimestamp",
      "labels",
      "ownerReferences",
    ]),
    ...(kept.length > 0 && { annotations: Object.fromEntries(kept) }),
  };
}

function slimContainer<T extends Pick<Container, "name" | "image" | "imagePullPolicy">>(container: T) {
  return pick(container, ["name", "image", "imagePullPolicy"]);
}
