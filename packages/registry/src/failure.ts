/** Why it is not known what an image runs on. Closed: above this package nobody reads HTTP numbers. */

/** What each means for whoever asks again. */
export type RegistryFailureKind =
  /** The name is none, by the grammar of distribution/reference. Asking again cannot help. */
  | "invalidName"
  /** The configuration does not let images of this registry be looked up. Never of a reader. Asking again cannot help. */
  | "notAllowed"
  /** The registry knows no such image, or says so to whoever may not see it. */
  | "notFound"
  /** 401: no credentials, or wrong ones. */
  | "unauthorized"
  /** 403, or a token that does not allow it. */
  | "forbidden"
  /** 429. */
  | "rateLimited"
  /** No answer: name resolution, connection, TLS, timeout. */
  | "unreachable"
  /** 5xx. */
  | "serverError"
  /** An answer that is not what was asked for: garbage, too large, too deep, another digest, endless redirects. */
  | "malformed"
  /** What was found is no image, or names no platform. */
  | "noPlatform"
  /** Not asked: so many questions to this registry failed lately that it is left alone for a while. */
  | "suspended"
  /** The caller gave up. */
  | "aborted";

/** A failure that somebody can act on. Holds no credential, and nothing of a body. */
export class RegistryError extends Error {
  override readonly name = "RegistryError";
  readonly kind: RegistryFailureKind;
  /** As reached: `registry-1.docker.io`, `127.0.0.1:5000`. Empty for an invalid name. */
  readonly registry: string;
  /** The registry asked to be left alone for so long, ms. */
  readonly retryAfterMs?: number;
  /** Not the registry failed, but a server that it led to: it says nothing of the registry's other images. */
  readonly elsewhere: boolean;

  /** @param message says what happened to which image, why, and what to do. */
  constructor(
    kind: RegistryFailureKind,
    message: string,
    details: {
      readonly registry: string;
      readonly retryAfterMs?: number;
      readonly elsewhere?: boolean;
      readonly cause?: unknown;
    },
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.kind = kind;
    this.registry = details.registry;
    this.elsewhere = details.elsewhere ?? false;
    if (details.retryAfterMs !== undefined) this.retryAfterMs = details.retryAfterMs;
  }
}
