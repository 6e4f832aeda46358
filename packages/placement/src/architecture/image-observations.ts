/**
 * The facts about images that this capability reads. Its rules never send a request to a registry. The reader behind
 * this interface sends requests, caches the answers and gives up on failures.
 */
import type { Platform } from "@berth/registry";
import type { Reason } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";

/** An image as a pod asks for it. */
export interface ImageQuestion {
  /** As it stands in the pod. */
  readonly image: string;
  /** How fresh the answer has to be, as for the kubelet. */
  readonly pull: "Always" | "IfNotPresent" | "Never";
  readonly access: ImageAccess;
}

/** The credentials with which Berth reads an image. */
export interface ImageAccess {
  readonly namespace: string;
  /** Berth uses its pull secrets if `secrets` is empty, as the ServiceAccount admission plugin does. */
  readonly serviceAccount: string;
  /** Names of Secrets in the namespace. */
  readonly secrets: readonly string[];
}

export type ImageKnowledge =
  | {
      readonly state: "known";
      /** In full: `docker.io/library/nginx:latest`. */
      readonly name: string;
      /** Empty: an artifact, or an image that names no platform. A pod can mount it, but cannot run it. */
      readonly platforms: readonly Platform[];
      /** An operator bundle: manifests without a program, so its platforms do not restrict the pod. */
      readonly isBundle?: true;
      readonly digest?: string;
    }
  /** Berth has not looked it up yet, or is doing so. */
  | { readonly state: "unknown"; readonly name: string }
  | {
      readonly state: "failed";
      readonly name: string;
      /** One of `Image…` and `Registry…`. */
      readonly reason: Reason;
      /** Which image, which registry, why, and what to do: a sentence for the user of the pod. */
      readonly message: string;
      /** When Berth should look again. Absent: only after a change of the pod. */
      readonly retryAt?: Instant;
    };

/** Current facts, from memory and without side effects. `ImageDemand` requests new facts. */
export interface ImageObservations {
  look(question: ImageQuestion): ImageKnowledge;
}

/** Requests facts about images. */
export interface ImageDemand {
  /** Makes `look` return facts about this image soon. Repeated calls have the effect of one. Never throws. */
  want(question: ImageQuestion): void;
}

/** Knows no facts. */
export const unreadImages: ImageObservations = { look: ({ image }) => ({ state: "unknown", name: image }) };
