export * from "./all-objects.ts";
export {
  BUNDLED_KUBERNETES,
  type ComponentName,
  type FindProgramsOptions,
  findPrograms,
  findRegistry,
  MissingAssetsError,
  type Program,
  type Programs,
} from "./assets.ts";
export type { AuditEntry, AuditFilter, AuditLog, AuditMark, AuditTally } from "./audit-log.ts";
export { BuildFailedError, type BuildProgress } from "./build.ts";
export { type CertificateAuthority, createAuthority, type KeyPair } from "./certificates.ts";
export * from "./cluster.ts";
export type { OptionalComponent } from "./components.ts";
export type { StartProgress } from "./control-plane.ts";
export * from "./detached.ts";
export * from "./detached-fleet.ts";
export * from "./eventually.ts";
export * from "./fault/index.ts";
export type { FleetPlanes } from "./fleet-planes.ts";
export type { UserProof } from "./kubeconfig.ts";
export { aNode, BUILT_AT, type Identity, type NodeBuilder } from "./node-builder.ts";
export * from "./perturb/index.ts";
export { aPod, type PodBuilder } from "./pod-builder.ts";
export { findFreePort } from "./ports.ts";
export { ComponentFailedError } from "./process.ts";
export * from "./registry/index.ts";
export * from "./shared.ts";
export * from "./test-fleet.ts";
