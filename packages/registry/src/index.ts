export { createRegistryClient, type RegistryClientOptions } from "./client.ts";
export type { ProxyFor } from "./connections.ts";
export {
  CredentialPlugins,
  type CredentialPluginsOptions,
  type CredentialProvider,
} from "./credential-plugins.ts";
export {
  credentialsFor,
  type DockerConfig,
  type DockerConfigEntry,
  type DockerConfigFormat,
  type DockerConfigHelper,
  isOf,
  type Place,
  parseDockerConfig,
  parsePlace,
} from "./docker-config.ts";
export { DockerConfigFile } from "./docker-config-file.ts";
export type { RegistryEndpoint, RegistryEndpoints, RegistryMirror } from "./endpoints.ts";
export type {
  FactAnswer,
  FactDemand,
  FactObserver,
  FactQuestion,
  ImageFactStoreOptions,
  PullPolicy,
} from "./fact-question.ts";
export { RegistryError, type RegistryFailureKind } from "./failure.ts";
export { ImageFactStore } from "./image-facts.ts";
export {
  type ContentDescriptor,
  type ImageConfig,
  MANIFEST_MEDIA_TYPES,
  type ParsedManifest,
  parseImageConfig,
  parseManifest,
} from "./manifest.ts";
export { type Platform, platformText } from "./platform.ts";
export { parseGoDuration } from "./plugin-answer.ts";
export { parseReference, referenceText } from "./reference.ts";
export type { RegistryBreakerOptions } from "./registry-breaker.ts";
export type { RequestTurnsOptions } from "./request-turns.ts";
export { factName, type StoredFact } from "./stored-fact.ts";
export type { RegistryClock } from "./token.ts";
export type { RegistryRequest, RequestKind } from "./transport.ts";
export type { ImageFacts, ImageReader, ImageReference, ReadOptions, RegistryCredential } from "./types.ts";
