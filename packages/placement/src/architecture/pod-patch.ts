/** What the JSON patches of pods are made of. Only what is ours is named in them, so that every other byte stays. */
import type { JsonPatchOperation, PodSpec } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { listField, textField } from "../node/untrusted-json.ts";
import { narrowAffinity } from "./affinity.ts";
import { ARCHITECTURE_GATE, type ArchitecturePreference } from "./document.ts";
import type { PodVerdict } from "./pod-view.ts";

const GATES = "/spec/schedulingGates";

/** Of our scheduling gate; -1: there is none. */
export function gateIndex(spec: unknown): number {
  return listField(spec, "schedulingGates").findIndex(
    (gate) => textField(gate, "name") === ARCHITECTURE_GATE,
  );
}

/** Puts our gate behind those that stand; nothing when it stands. */
export function addGate(spec: unknown): readonly JsonPatchOperation[] {
  if (gateIndex(spec) >= 0) return [];
  const gate = { name: ARCHITECTURE_GATE };
  if (listField(spec, "schedulingGates").length === 0) return [{ op: "add", path: GATES, value: [gate] }];
  return [{ op: "add", path: `${GATES}/-`, value: gate }];
}

/** Takes our gate off, and no other; nothing when there is none. */
export function liftGate(spec: unknown): readonly JsonPatchOperation[] {
  const at = gateIndex(spec);
  return at < 0 ? [] : [{ op: "remove", path: `${GATES}/${at}` }];
}

/** Fails when the pod has changed since it was looked at, or another gate stands where ours did. */
export function guards(resourceVersion: string, spec: unknown): readonly JsonPatchOperation[] {
  const at = gateIndex(spec);
  const version = { op: "test", path: "/metadata/resourceVersion", value: resourceVersion } as const;
  if (at < 0) return [version];
  return [version, { op: "test", path: `${GATES}/${at}/name`, value: ARCHITECTURE_GATE }];
}

/**
 * Keeps a pod to the architectures of its verdict; nothing where it is not restricted. Preferences of the policy are for a
 * pod that says its architectures itself as well: multiarch-tuning-operator adds them there, too.
 */
export function narrow(
  spec: PodSpec,
  verdict: PodVerdict,
  preferences: readonly ArchitecturePreference[],
): readonly JsonPatchOperation[] {
  if (verdict.kind === "fits") return narrowAffinity(spec, verdict, preferences);
  return verdict.reason === reasons.ArchitectureLeftToPod ? narrowAffinity(spec, undefined, preferences) : [];
}
