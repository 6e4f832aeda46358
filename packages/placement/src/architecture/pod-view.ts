/** The verdict on the images of one pod. Plain data: `verdict.ts` makes it, all other files use it. */
import type { Reason } from "../api/reasons.ts";
import type { ImageKnowledge, ImageQuestion } from "./image-observations.ts";

/** A place in a pod that names an image. */
export interface ImageUse {
  /** `container app`, `init container setup`, `ephemeral container debug`, `image volume model`. */
  readonly where: string;
  /** Image volumes need no platform. */
  readonly isVolume: boolean;
  readonly question: ImageQuestion;
}

/** An image and the architectures that it allows. */
export interface ImageAllowance {
  readonly use: ImageUse;
  readonly knowledge: ImageKnowledge;
  /** For the pod's operating system, sorted. `undefined`: the image does not restrict the pod. */
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
  /** Nothing restricts it: opted out, annotated so, unresolvable and released, or image volumes only. */
  | { readonly kind: "any" }
  /** No architecture runs all images. `message` names the containers and the architectures of each. */
  | { readonly kind: "impossible" }
  /** Berth still waits for facts. */
  | { readonly kind: "waiting" }
  /** Berth cannot get the facts, at least for now, and the policy keeps the pod pending. */
  | { readonly kind: "unresolvable" }
);

/** The last decision about a pod or DaemonSet. */
export interface WorkloadOutcome {
  /** The rule of the policy that governs it. */
  readonly rule: string | undefined;
  /** Taint keys that it neither tolerates nor has a verdict for. Berth does not taint nodes with them yet. */
  readonly uncovered: readonly string[];
  readonly phase: "settled" | "waiting" | "impossible" | "unresolvable";
}

/** For an existing workload that needs no action: it is being deleted, or has a node. */
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
