/** Questions to a store of image facts, and its answers. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import type { RegistryBreakerOptions } from "./registry-breaker.ts";
import type { RequestTurnsOptions } from "./request-turns.ts";
import type { ImageFacts, ImageReader, ImageReference, RegistryCredential } from "./types.ts";

/** As `imagePullPolicy`: how recent an answer about a tag must be. */
export type PullPolicy = "Always" | "IfNotPresent" | "Never";

/** The image, and the scope of the credentials. */
export interface FactQuestion {
  readonly reference: ImageReference;
  readonly pull: PullPolicy;
  /**
   * The scope of the credentials: any text, equal for equal credentials. A refusal counts for its scope only; all
   * scopes share facts.
   */
  readonly scope: string;
}

/** A question with all that is needed to answer it. */
export interface FactDemand extends FactQuestion {
  /** The namespace that asks. Namespaces are served in turn and share the room. Default: the scope. */
  readonly namespace?: string;
  /**
   * Called when a registry is about to be asked, not for known facts. Must end in bounded time. If it throws, that
   * counts as a refusal of this scope for some seconds.
   */
  readonly credentials: () => Promise<readonly RegistryCredential[]>;
}

/** Times are ms since 1970. */
export type FactAnswer =
  | { readonly state: "known"; readonly facts: ImageFacts /** Last known to be true. */; readonly at: number }
  | { readonly state: "unknown" }
  | {
      readonly state: "failed";
      readonly error: RegistryError;
      readonly at: number;
      /** When to ask again. Absent: never, for this name. */
      readonly retryAt?: number;
    };

/** Callbacks for metrics. They omit image names, which are unbounded and belong to tenants. */
export interface FactObserver {
  /** A question was answered from memory. */
  looked?(state: FactAnswer["state"]): void;
  /** A question to a registry ended: a manifest was `read`, a tag is unchanged (`renewed`), or the failure. */
  asked?(outcome: "read" | "renewed" | RegistryFailureKind): void;
  /** A listener threw. The other listeners are still called. */
  listenerFailed?(error: unknown): void;
}

/** The reader of a store, its clocks and its limits. */
export interface ImageFactStoreOptions {
  readonly reader: ImageReader;
  /** Wall clock, ms since 1970, for the dates of facts. */
  readonly now: () => number;
  /** A clock that never goes back, ms, for waits and ages. */
  readonly monotonic: () => number;
  /** In [0, 1). Default `Math.random`. */
  readonly random?: () => number;
  /** How long a tag counts as unchanged for `IfNotPresent` and `Never`, ms. Default 6 hours. */
  readonly tagTtlMs?: number;
  /** The same for `Always`, ms. Default 5 minutes: pods of one rollout share one answer. */
  readonly alwaysTtlMs?: number;
  /** Names held, tags and digests together. Default 10,000. */
  readonly maxFacts?: number;
  /** Failures held. Default 10,000. */
  readonly maxFailures?: number;
  /**
   * Different questions in flight or waiting for a turn. Default 10,000. A namespace may have as many as it leaves
   * free, so one alone gets half of them. Its next question is refused with a time to retry.
   */
  readonly maxWaiting?: number;
  /** No registry is asked before it resolves. It must not reject. Default: resolved. */
  readonly ready?: Promise<void>;
  readonly turns?: RequestTurnsOptions;
  readonly breaker?: RegistryBreakerOptions;
  readonly observer?: FactObserver;
}
