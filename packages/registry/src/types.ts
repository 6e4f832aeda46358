/** The types of this package and of its callers. */
import type { Platform } from "./platform.ts";

/** A parsed and completed image name, as in container runtimes: `nginx` is `docker.io/library/nginx:latest`. */
export interface ImageReference {
  /** As in the name: `docker.io`, `ghcr.io`, `localhost:5000`. */
  readonly registry: string;
  /** `library/nginx` */
  readonly repository: string;
  /** Absent when only a digest is given. */
  readonly tag?: string;
  /** `sha256:…`; takes precedence when both are given. */
  readonly digest?: string;
}

/** The known facts of an image. */
export interface ImageFacts {
  /** Digest of the index if there is one, else of the manifest. */
  readonly digest: string;
  /** Media type of the content with that digest. */
  readonly mediaType: string;
  /** Without duplicates, attestations, artifacts and entries that name no platform; in the order of the index. */
  readonly platforms: readonly Platform[];
  /** An operator bundle of OLM. It holds manifests and no program, so its platforms have no meaning. */
  readonly isBundle?: true;
}

/** A name and password, or a token, for one registry or a part of it. Never in a log or an error. */
export interface RegistryCredential {
  readonly username?: string;
  readonly password?: string;
  /** An OAuth2 refresh token (`identitytoken` of a docker config). */
  readonly identityToken?: string;
  /** A token to send as it is (`registrytoken`). */
  readonly registryToken?: string;
}

/** Reads images of registries. `onRequest` counts every request. */
export interface ImageReader {
  /**
   * Tries the credentials in order, or no credential for an empty list. After a refusal it tries the next.
   * @throws RegistryError
   */
  read(reference: ImageReference, options: ReadOptions): Promise<ImageFacts>;
  /**
   * The digest that the name has at present, without reading the content (HEAD). `undefined` when the registry does not
   * report it.
   * @throws RegistryError
   */
  digestOf(reference: ImageReference, options: ReadOptions): Promise<string | undefined>;
}

/** The credentials to read with, and the signal. */
export interface ReadOptions {
  readonly credentials: readonly RegistryCredential[];
  readonly signal?: AbortSignal;
}
