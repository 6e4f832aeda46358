/** Verdicts in short, for tests. */
import type { PodSpec } from "@berth/kube";
import type { PodVerdict } from "../pod-view.ts";
import { judge } from "../verdict.ts";
import { type KnownImages, sightOf } from "./observations.ts";
import { type PolicyInit, policyInForce } from "./policies.ts";

/** The time of every verdict, ms. */
export const NOW: number = 1_000_000;

export interface Case {
  readonly images: KnownImages;
  /** Images of the containers `a`, `b`, …; default those that are listed. */
  readonly pod?: readonly string[];
  readonly spec?: Partial<PodSpec>;
  readonly policy?: PolicyInit | null;
  readonly annotation?: string;
  /** Since when it waits; absent: at admission. */
  readonly heldMs?: number;
}

export function verdictOf({ images, pod, spec, policy = {}, annotation, heldMs }: Case): PodVerdict {
  const names = pod ?? Object.keys(images);
  const containers = names.map((image, at) => ({ name: "abcdefghijklmnop"[at] ?? "z", image }));
  return judge(
    {
      namespace: "default",
      annotations: annotation === undefined ? {} : { "berth.dev/architectures": annotation },
      spec: { containers, ...spec },
      policy: policy === null ? undefined : policyInForce({ mode: "Affinity", ...policy }),
    },
    sightOf(images),
    { now: NOW, heldSince: heldMs === undefined ? undefined : NOW - heldMs },
  );
}

export const Closed = { unresolvable: "Closed" } as const;
export const Fallback: PolicyInit = { afterMaxHold: "Fallback", fallbackArchitectures: ["arm64", "amd64"] };
export const Keep = { afterMaxHold: "Keep" } as const;
export const S390: PolicyInit = { fallbackArchitectures: ["s390x"] };

/** `fits amd64,arm64 Reason`, `any Reason`, … */
export function short(verdict: PodVerdict): string {
  const what = verdict.kind === "fits" ? `fits ${verdict.architectures.join(",")}` : verdict.kind;
  return `${what} ${verdict.reason}`;
}

export const termOf = (
  ...expressions: readonly (readonly [string, string, (readonly string[])?])[]
): object => ({
  matchExpressions: expressions.map(([key, operator, values]) => ({ key, operator, values })),
});
export const requiring = (...nodeSelectorTerms: readonly object[]): Partial<PodSpec> => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
});
