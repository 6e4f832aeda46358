export { type ArchitectureAnswers, architectureAdmission } from "./admission.ts";
export { architectureFields } from "./capability.ts";
export { architectureRules, compileArchitecture, taintKeys } from "./compile.ts";
export * from "./image-observations.ts";
export {
  type CredentialPluginsSpec,
  defaultImageRegistries,
  type ImageRegistriesSpec,
  imageRegistriesKind,
  type RegistrySpec,
} from "./image-registries.ts";
export { IMAGE_FACTS_FIELD, IMAGE_FACTS_LABEL } from "./images/fact-config-maps.ts";
export { MAX_SHARDS } from "./images/fact-shards.ts";
export {
  createImageLibrary,
  type ImageLibrary,
  parseAllowed,
  type RegistrySettings,
  readMsOf,
} from "./images/image-library.ts";
export type { ImagesOnce } from "./images/once.ts";
export {
  type FoundCredentials,
  PullCredentials,
  type PullCredentialsOptions,
} from "./images/pull-credentials.ts";
export { architectureOnce } from "./once.ts";
export { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
export { architectureRuntimeClasses } from "./runtime-class.ts";
export { architecture, type ImageFlags } from "./wiring.ts";
