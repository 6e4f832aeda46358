/** Decisions about one stored pod, for tests. */
import { applyPatch } from "@berth/host";
import type { JsonPatchOperation, Pod } from "@berth/kube";
import { aPod, type PodBuilder } from "@berth/testcluster";
import { decidePod, type PodDecision, type PodView } from "../decide-pod.ts";
import { type KnownImages, sightOf } from "./observations.ts";
import { type PolicyInit, policyInForce } from "./policies.ts";
import { arch, gatedBy, os, requiring as requiringAll } from "./specs.ts";

export const CREATED: number = Date.parse("2026-01-01T00:00:00Z");
export const IMAGES: KnownImages = {
  amd: ["amd64"],
  arm: ["arm64"],
  gone: { failed: "ImageNotFound", retryAt: CREATED + 60_000 },
};
export const version: JsonPatchOperation = { op: "test", path: "/metadata/resourceVersion", value: "7" };
export const requiring = (value: string): object => requiringAll(arch(value), os);

export function pod(image: string, ...gates: readonly { readonly name: string }[]): PodBuilder {
  const stored = { uid: "u", resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z" };
  const made = aPod("p").image(image).stored(stored);
  return gates.length > 0 ? gatedBy(made, ...gates) : made;
}

export interface Case extends Partial<Omit<PodView, "pod" | "policy">> {
  /** `null`: no policy governs it. */
  readonly policy?: PolicyInit | null;
  readonly images?: KnownImages;
  readonly afterMs?: number;
}

export function decide(builder: PodBuilder, input: Case = {}): PodDecision {
  const { policy = {}, images = IMAGES, afterMs = 1000, keys, ...more } = input;
  const inForce = policy === null ? undefined : policyInForce({ mode: "Affinity", ...policy });
  const mode = policy?.mode ?? "Affinity";
  return decidePod({
    pod: builder.build(),
    policy: inForce,
    keys: keys ?? (mode === "Affinity" ? [] : ["supported-arch"]),
    observations: sightOf(images),
    now: CREATED + afterMs,
    seenSince: CREATED,
    ...more,
  });
}

export function after(builder: PodBuilder, { patch = [] }: PodDecision): Pod["spec"] {
  return (applyPatch(builder.build(), patch) as Pod).spec;
}

export const taint: Case = { policy: { mode: "Taint" } };
export const both: Case = { policy: { mode: "Both" } };
