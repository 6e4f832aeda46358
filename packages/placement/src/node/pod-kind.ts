/** Classifies pods from untrusted input. Never throws. */
import type { PodSpec } from "@berth/kube";
import { field, isRecord, listField, textField } from "./untrusted-json.ts";

/** Lists of a pod that Berth reads in nested loops. Real pods have far fewer than `MAX_LISTED` items in total. */
const LISTS = ["containers", "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets"];
const MAX_LISTED = 1000;

/**
 * True for an object; its fields can still have any type. False for more than 1,000 containers, volumes, pull secrets
 * and node selector terms in total, because a huge pod could keep Berth busy for seconds.
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
 * True for a pod of the DaemonSet controller, which has chosen its node. Berth must not narrow its placement: the pod
 * could stay pending for ever, or the controller would create it again and again.
 */
export function isDaemonSetPod(metadata: unknown): boolean {
  return listField(metadata, "ownerReferences").some(
    (owner) =>
      field(owner, "controller") === true &&
      textField(owner, "kind") === "DaemonSet" &&
      textField(owner, "apiVersion").startsWith("apps/"),
  );
}

/** True for a mirror pod: the API server's copy of a static pod that the kubelet runs. */
export function isMirrorPod(metadata: unknown): boolean {
  return field(field(metadata, "annotations"), "kubernetes.io/config.mirror") !== undefined;
}
