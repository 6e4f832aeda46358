/** What kind of pod it is. Total on whatever somebody sent. */
import type { PodSpec } from "@berth/kube";
import { field, isRecord, listField, textField } from "./untrusted-json.ts";

/** All lists of one pod that are gone through for each other. Together: no pod that runs comes near it. */
const LISTS = ["containers", "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets"];
const MAX_LISTED = 1000;

/**
 * Its fields may still be anything: they are read one by one. One with more than 1,000 containers, volumes, pull secrets and
 * node selector terms in all counts as none, so that nobody can have us read it for seconds.
 */
export function isPodSpec(value: unknown): value is PodSpec {
  const nodeAffinity = field(field(value, "affinity"), "nodeAffinity");
  const required = field(nodeAffinity, "requiredDuringSchedulingIgnoredDuringExecution");
  const terms = listField(required, "nodeSelectorTerms").length;
  return (
    isRecord(value) && LISTS.reduce((sum, list) => sum + listField(value, list).length, terms) <= MAX_LISTED
  );
}

/**
 * Made by the DaemonSet controller, which has chosen its node: narrowed, it would stay pending for ever where the
 * DaemonSet is not meant to run, and be made again.
 */
export function isDaemonSetPod(metadata: unknown): boolean {
  return listField(metadata, "ownerReferences").some(
    (owner) =>
      field(owner, "controller") === true &&
      textField(owner, "kind") === "DaemonSet" &&
      textField(owner, "apiVersion").startsWith("apps/"),
  );
}

/** Static: kubelet runs it, and what the API server shows of it is an image of that. */
export function isMirrorPod(metadata: unknown): boolean {
  return field(field(metadata, "annotations"), "kubernetes.io/config.mirror") !== undefined;
}
