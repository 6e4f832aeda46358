/** How registries are reached, and which of them. */
import {
  type ImageReference,
  isOf,
  parseReference,
  type RegistryEndpoints,
  RegistryError,
  referenceText,
} from "@berth/registry";

export interface RegistrySettings {
  readonly endpoints: RegistryEndpoints;
  /** Of other images nothing is looked up; see `isOf`. Absent: all may be. */
  readonly allowedRegistries?: readonly string[];
  /** Absolute. Read when it is needed. */
  readonly dockerConfig?: string;
  readonly tagTtlMs: number;
  readonly alwaysTtlMs: number;
  /** Of each request. */
  readonly timeoutMs: number;
}

/** A read may take several requests: a token, a manifest, a config, each at a mirror first. */
const REQUESTS_PER_READ = 3;

/** For all the requests that it takes to read an image. Milliseconds. */
export function readMsOf({ timeoutMs }: RegistrySettings): number {
  return REQUESTS_PER_READ * timeoutMs;
}

/** @throws RegistryError `invalidName`; `notAllowed` for an image that must not be looked up. */
export function parseAllowed(image: string, { allowedRegistries }: RegistrySettings): ImageReference {
  const reference = parseReference(image);
  if (allowedRegistries?.some((place) => isOf(place, reference)) ?? true) return reference;
  const message =
    `${referenceText(reference)} is not looked up: the configuration allows only registries that it lists. ` +
    "Use an image of one of them, or have this one added to allowedRegistries in ImageRegistries";
  throw new RegistryError("notAllowed", message, { registry: reference.registry });
}
