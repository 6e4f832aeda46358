/** Builds JSON patches of pods. They name only Berth's own entries, so that all other fields stay. */
import type { JsonPatchOperation, PodSpec } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { listField, textField } from "../node/untrusted-json.ts";
import { narrowAffinity } from "./affinity.ts";
import { ARCHITECTURE_GATE, type ArchitecturePreference } from "./document.ts";
import type { PodVerdict } from "./pod-view.ts";

const GATES = "/spec/schedulingGates";

/** Index of our scheduling gate; -1 if the pod has none. */
export function gateIndex(spec: unknown): number {
  return listField(spec, "schedulingGates").findIndex(
    (gate) => textField(gate, "name") === ARCHITECTURE_GATE,
  );
}

/** Adds our gate after the existing ones. Empty if the pod has it already. */
export function addGate(spec: unknown): readonly JsonPatchOperation[] {
  if (gateIndex(spec) >= 0) return [];
  const gate = { name: ARCHITECTURE_GATE };
  if (listField(spec, "schedulingGates").length === 0) return [{ op: "add", path: GATES, value: [gate] }];
  return [{ op: "add", path: `${GATES}/-`, value: gate }];
}

/** Removes only our gate. Empty if the pod does not have it. */
export function liftGate(spec: unknown): readonly JsonPatchOperation[] {
  const at = gateIndex(spec);
  return at < 0 ? [] : [{ op: "remove", path: `${GATES}/${at}` }];
}

/** Makes the patch fail if the pod has changed since Berth read it, or another gate has this index. */
export function guards(resourceVersion: string, spec: unknown): readonly JsonPatchOperation[] {
  const at = gateIndex(spec);
  const version = { op: "test", path: "/metadata/resourceVersion", value: resourceVersion } as const;
  if (at < 0) return [version];
  return [version, { op: "test", path: `${GATES}/${at}/name`, value: ARCHITECTURE_GATE }];
}

/**
 * Narrows a pod to the architectures of its verdict. Empty if the verdict does not restrict it. A pod that names its
 * architectures itself also gets the preferences, as with multiarch-tuning-operator.
 */
export function narrow(
  spec: PodSpec,
  verdict: PodVerdict,
  preferences: readonly ArchitecturePreference[],
): readonly JsonPatchOperation[] {
  if (verdict.kind === "fits") return narrowAffinity(spec, verdict, preferences);
  return verdict.reason === reasons.ArchitectureLeftToPod ? narrowAffinity(spec, undefined, preferences) : [];
}
