/** Why the platforms of an image are unknown. A closed union, so that callers never read HTTP status numbers. */

/** Each kind, with its meaning for the next attempt. */
export type RegistryFailureKind =
  /** The name is invalid by the grammar of distribution/reference. A retry cannot help. */
  | "invalidName"
  /** The configuration forbids lookups at this registry. Readers never report it. A retry cannot help. */
  | "notAllowed"
  /** The registry has no such image, or hides it from users without permission. */
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
  /** An unexpected answer: garbage, too large, too deep, another digest, endless redirects. */
  | "malformed"
  /** The content is no image, or names no platform. */
  | "noPlatform"
  /** Not asked: too many questions to this registry failed lately, so it rests. */
  | "suspended"
  /** The caller gave up. */
  | "aborted";

/** A failure that a user can act on. Holds no credential, and nothing of a body. */
export class RegistryError extends Error {
  override readonly name = "RegistryError";
  readonly kind: RegistryFailureKind;
  /** As contacted: `registry-1.docker.io`, `127.0.0.1:5000`. Empty for an invalid name. */
  readonly registry: string;
  /** The pause that the registry asked for, ms. */
  readonly retryAfterMs?: number;
  /** Another server that the registry led to failed: other images of the registry may still work. */
  readonly elsewhere: boolean;

  /** @param message states the image, what happened, why, and the remedy. */
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
