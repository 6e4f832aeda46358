/** Reduces pods and pod templates to the fields that Berth reads: placement and images. */

import { pick } from "@berth/host";
import type { Container, ObjectMeta, PodSpec } from "@berth/kube";

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
const ANNOTATIONS = /^(?:berth\.dev\/|kubernetes\.io\/config\.)/;

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
