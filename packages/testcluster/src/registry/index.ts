/** A real OCI registry, images to put into it, and an exact count of what is asked of it. */
export { anImage, type ImageBuilder } from "./image-builder.ts";
export type { ImageDescription, ImagePlatform } from "./image-content.ts";
export * from "./registry.ts";
export type {
  RegistryMark,
  RegistryRequest,
  RegistryRequestFilter,
  RegistryRequests,
  RegistryTally,
} from "./request-log.ts";
export { basicCredential, OTHER_REGISTRY_USER, REGISTRY_USER, type RegistryUser } from "./users.ts";
