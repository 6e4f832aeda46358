/** What is said about the images of one pod. Plain data: made by `verdict.ts`, gone by everywhere else. */
import type { Reason } from "../api/reasons.ts";
import type { ImageKnowledge, ImageQuestion } from "./image-sight.ts";

/** Somewhere in a pod that names an image. */
export interface ImageUse {
  /** `container app`, `init container setup`, `ephemeral container debug`, `image volume model`. */
  readonly where: string;
  /** Image volumes need no platform. */
  readonly isVolume: boolean;
  readonly question: ImageQuestion;
}

/** An image and what it allows. */
export interface ImageAllowance {
  readonly use: ImageUse;
  readonly knowledge: ImageKnowledge;
  /** Of the pod's operating system; sorted. `undefined`: it does not restrict. */
  readonly architectures: readonly string[] | undefined;
  /** Where the answer is from. */
  readonly source: "registry" | "policy" | "none";
}

/** Which architectures a pod can run on. */
export type PodVerdict = {
  readonly reason: Reason;
  readonly message: string;
  readonly images: readonly ImageAllowance[];
} & (
  | {
      /** All images agree on these, and only these. */
      readonly kind: "fits";
      readonly os: string;
      /** Sorted, at least one, without duplicates. */
      readonly architectures: readonly string[];
    }
  /** Nothing restricts it: opted out, told so by annotation, unresolvable and let go, or image volumes alone. */
  | { readonly kind: "any" }
  /** No architecture runs all of them. `message` names the containers and what each runs on. */
  | { readonly kind: "impossible" }
  /** Facts are still to come. */
  | { readonly kind: "waiting" }
  /** Facts cannot be had, at least for now, and the policy is to stay closed. */
  | { readonly kind: "unresolvable" }
);

/** What became of a pod or DaemonSet when it was last decided. */
export interface WorkloadOutcome {
  /** Of the policy that governs it. */
  readonly rule: string | undefined;
  /** Keys of taints that it neither tolerates nor has a verdict for: nodes are not tainted with them yet. */
  readonly uncovered: readonly string[];
  readonly phase: "settled" | "waiting" | "impossible" | "unresolvable";
}

/** Of a workload that is there, and that nothing is to be done for: it is being deleted, or has a node. */
export const nothingOpen: WorkloadOutcome = Object.freeze({
  rule: undefined,
  uncovered: [],
  phase: "settled",
});

/** Follows decisions. A workload is `Pod default/web-1` or `DaemonSet kube-system/cni`. */
export interface WorkloadObserver {
  decided(workload: string, outcome: WorkloadOutcome): void;
  gone(workload: string): void;
}
