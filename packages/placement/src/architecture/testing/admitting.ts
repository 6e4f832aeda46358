/** What the webhook answers, for tests of what it says of pods and DaemonSets. */
import { applyPatch } from "@berth/host";
import type { JsonPatchOperation, Pod } from "@berth/kube";
import { type PodBuilder } from "@berth/testcluster";
import { type ArchitectureAnswer, type admitImage, admitPod } from "../admit.ts";
import { type KnownImages, sightOf } from "./observations.ts";
import { type PolicyInit, policiesOf } from "./policies.ts";

export const IMAGES: KnownImages = {
  amd: ["amd64"],
  arm: ["arm64"],
  multi: ["amd64", "arm64"],
  gone: { failed: "ImageNotFound" },
};
export const POD = { kind: "Pod" };

export interface Setting {
  readonly policies?: Readonly<Record<string, PolicyInit>>;
  /** `null`: the namespace is not known. */
  readonly labels?: Readonly<Record<string, string>> | null;
  readonly images?: KnownImages;
}

export type Context = Parameters<typeof admitImage>[0];

export function contextOf({
  policies = { p: { mode: "Affinity" } },
  labels = {},
  images = IMAGES,
}: Setting): Context {
  return {
    policies: policiesOf(policies).policies,
    ownNamespace: "berth-system",
    namespaceLabels: () => labels ?? undefined,
    observations: sightOf(images),
    architectureOf: (node) => (node === "n" ? "arm64" : undefined),
    now: 0,
  };
}

export function admit(pod: PodBuilder | Pod, setting: Setting = {}): ArchitectureAnswer {
  const object = "build" in pod ? pod.build() : pod;
  const namespace = object.metadata?.namespace;
  return admitPod(contextOf(setting), { kind: POD, operation: "CREATE", object, namespace });
}

export function patchOf(answer: ArchitectureAnswer): readonly JsonPatchOperation[] {
  if (!answer.allowed) throw new Error(`refused: ${answer.message}`);
  return answer.patch;
}

export const after = (pod: PodBuilder, setting: Setting = {}): Pod =>
  applyPatch(pod.build(), patchOf(admit(pod, setting))) as Pod;

export const taint: Setting = { policies: { p: { mode: "Taint" } } };
export const both: Setting = { policies: { p: { mode: "Both" } } };
export const holding: Setting = { policies: { p: { mode: "Affinity", impossible: "Hold" } } };
