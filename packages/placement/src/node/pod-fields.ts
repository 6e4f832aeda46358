/** What is kept of pods, and of templates of pods: where they may go, and which images they run. */

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

/** Of annotations only those that somebody here reads: a client may keep whole manifests there. */
const ANNOTATIONS = /^(?:berth\.dev\/|kubernetes\.io\/config\.)/;

/** A list that stands empty stays, for patches are made against it. The type promises more: none of it is read. */
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
