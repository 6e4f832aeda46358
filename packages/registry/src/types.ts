/** What the parts of this package say to each other, and to whoever reads images through it. */
import type { Platform } from "./platform.ts";

/** An image name taken apart and made whole, as container runtimes do: `nginx` is `docker.io/library/nginx:latest`. */
export interface ImageReference {
  /** As the name says: `docker.io`, `ghcr.io`, `localhost:5000`. */
  readonly registry: string;
  /** `library/nginx` */
  readonly repository: string;
  /** Absent when only a digest is given. */
  readonly tag?: string;
  /** `sha256:…`; counts before the tag when both are given. */
  readonly digest?: string;
}

/** What is known of an image. */
export interface ImageFacts {
  /** Of what the name stands for: the index where there is one, else the manifest. */
  readonly digest: string;
  /** Media type of that. */
  readonly mediaType: string;
  /** Without duplicates, attestations, artifacts and entries that name no platform; in the order of the index. */
  readonly platforms: readonly Platform[];
  /** An operator bundle of OLM: it holds manifests and no program, so its platforms say nothing about where it runs. */
  readonly isBundle?: true;
}

/** A name and password, or a token, for one registry or a part of it. Never logged, never in an error. */
export interface RegistryCredential {
  readonly username?: string;
  readonly password?: string;
  /** An OAuth2 refresh token (`identitytoken` of a docker config). */
  readonly identityToken?: string;
  /** A token to send as it is (`registrytoken`). */
  readonly registryToken?: string;
}

/** Reads images of registries. Every request it makes is counted by `onRequest`. */
export interface ImageReader {
  /**
   * Tries the credentials in order, and none where the list is empty. One that is refused is followed by the next.
   * @throws RegistryError
   */
  read(reference: ImageReference, options: ReadOptions): Promise<ImageFacts>;
  /**
   * The digest that the name stands for at present, without reading what it stands for (HEAD).
   * `undefined` when the registry does not say.
   * @throws RegistryError
   */
  digestOf(reference: ImageReference, options: ReadOptions): Promise<string | undefined>;
}

/** With which credentials to read, and until when. */
export interface ReadOptions {
  readonly credentials: readonly RegistryCredential[];
  readonly signal?: AbortSignal;
}
