/**
 * What is known of images, as it is handed to this capability: rules never speak to a registry. The reader that stands
 * behind it asks, remembers and gives up; here it is only looked at.
 */
import type { Platform } from "@berth/registry";
import type { Reason } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";

/** An image as a pod asks for it. */
export interface ImageQuestion {
  /** As it stands in the pod. */
  readonly image: string;
  /** How fresh the answer has to be, as for kubelet. */
  readonly pull: "Always" | "IfNotPresent" | "Never";
  readonly access: ImageAccess;
}

/** With whose rights an image is read. */
export interface ImageAccess {
  readonly namespace: string;
  /** Asked for its own pull secrets where `secrets` is empty, as the admission of pods does. */
  readonly serviceAccount: string;
  /** Names of Secrets in the namespace. */
  readonly secrets: readonly string[];
}

export type ImageKnowledge =
  | {
      readonly state: "known";
      /** In full: `docker.io/library/nginx:latest`. */
      readonly name: string;
      /** Empty: an artifact, or an image that names no platform. It can be mounted, and not be run. */
      readonly platforms: readonly Platform[];
      /** An operator bundle: manifests without a program, so its platforms do not restrict the pod. */
      readonly isBundle?: true;
      readonly digest?: string;
    }
  /** Nobody has looked yet, or is looking. */
  | { readonly state: "unknown"; readonly name: string }
  | {
      readonly state: "failed";
      readonly name: string;
      /** One of `Image…` and `Registry…`. */
      readonly reason: Reason;
      /** Which image, which registry, why, and what to do: a sentence for the user of the pod. */
      readonly message: string;
      /** When it is worth another look; absent: never, without a change of the pod. */
      readonly retryAt?: Instant;
    };

/** Facts as they are now. Quick and without effect: `ImageDemand` is what makes them come. */
export interface ImageSight {
  look(question: ImageQuestion): ImageKnowledge;
}

/** Who has the facts come. */
export interface ImageDemand {
  /**
   * Sees to it that `look` says something about this, soon. Again and again is the same as once. Never throws.
   */
  want(question: ImageQuestion): void;
}

/** Nothing is known. */
export const unreadImages: ImageSight = { look: ({ image }) => ({ state: "unknown", name: image }) };
