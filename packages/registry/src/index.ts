export { RegistryError, type RegistryFailureKind } from "./failure.ts";
export { type Platform, platformText } from "./platform.ts";
export type { ImageFacts, ImageReader, ImageReference, ReadOptions, RegistryCredential } from "./types.ts";
