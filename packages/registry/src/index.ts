export {
  credentialsFor,
  type DockerConfig,
  type DockerConfigEntry,
  type DockerConfigFormat,
  parseDockerConfig,
} from "./docker-config.ts";
export { RegistryError, type RegistryFailureKind } from "./failure.ts";
export {
  type ContentDescriptor,
  MANIFEST_MEDIA_TYPES,
  type ParsedManifest,
  parseImageConfig,
  parseManifest,
} from "./manifest.ts";
export { type Platform, platformText } from "./platform.ts";
export { parseReference, referenceText } from "./reference.ts";
export type { ImageFacts, ImageReader, ImageReference, ReadOptions, RegistryCredential } from "./types.ts";
