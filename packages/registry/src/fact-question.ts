/** What is asked of a store of image facts, and what it answers. */
import type { RegistryError, RegistryFailureKind } from "./failure.ts";
import type { RegistryBreakerOptions } from "./registry-breaker.ts";
import type { RequestTurnsOptions } from "./request-turns.ts";
import type { ImageFacts, ImageReader, ImageReference, RegistryCredential } from "./types.ts";

/** As `imagePullPolicy`: how fresh an answer about a tag has to be. */
export type PullPolicy = "Always" | "IfNotPresent" | "Never";

/** What is looked for, and for whom. */
export interface FactQuestion {
  readonly reference: ImageReference;
  readonly pull: PullPolicy;
  /**
   * Whose credentials: any text, the same for the same credentials. A refusal counts for its scope only; facts are
   * shared by all.
   */
  readonly scope: string;
}

/** A question together with what it takes to have it answered. */
export interface FactDemand extends FactQuestion {
  /** Who asks: a namespace. Tenants are served in turn, and none takes all the room. Default: the scope. */
  readonly namespace?: string;
  /**
   * Called when a registry is about to be asked, and not for what is known. Must end in bounded time; when it throws,
   * that is a refusal of this scope, for some seconds.
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
      /** When asking is of use again. Absent: never, for this name. */
      readonly retryAt?: number;
    };

/** Told what happens, for metrics. Names of images are left out: they are endless, and those of tenants. */
export interface FactObserver {
  /** A question was answered from memory. */
  looked?(state: FactAnswer["state"]): void;
  /** A question to a registry came to an end: a manifest was `read`, a tag is still what it was, or how it failed. */
  asked?(outcome: "read" | "renewed" | RegistryFailureKind): void;
  /** A listener threw. The others are told all the same. */
  listenerFailed?(error: unknown): void;
}

/** What a store asks, its clocks and its limits. */
export interface ImageFactStoreOptions {
  readonly reader: ImageReader;
  /** Wall clock, ms since 1970: what facts are dated by. */
  readonly now: () => number;
  /** A clock that never goes back, ms: what waits and ages are measured by. */
  readonly monotonic: () => number;
  /** In [0, 1). Default `Math.random`. */
  readonly random?: () => number;
  /** How long a tag is taken to be what it was for `IfNotPresent` and `Never`, ms. Default 6 hours. */
  readonly tagTtlMs?: number;
  /** The same for `Always`, ms. Default 5 minutes: pods of one rollout share one answer. */
  readonly alwaysTtlMs?: number;
  /** Names held, tags and digests together. Default 10,000. */
  readonly maxFacts?: number;
  /** Failures held. Default 10,000. */
  readonly maxFailures?: number;
  /**
   * Different questions being asked or waiting for a turn. Default 10,000. A namespace may have as many as it leaves free,
   * alone half of them; its next one is told to come back.
   */
  readonly maxWaiting?: number;
  /** No registry is asked before it resolves. It must not reject. Default: at once. */
  readonly ready?: Promise<void>;
  readonly turns?: RequestTurnsOptions;
  readonly breaker?: RegistryBreakerOptions;
  readonly observer?: FactObserver;
}
