export * from "./client.ts";
export * from "./credential.ts";
export * from "./discovery.ts";
export * from "./exec-credential.ts";
export * from "./failure.ts";
export { followKubeconfig } from "./followed-kubeconfig.ts";
export * from "./generated/resources.ts";
export type * from "./generated/wire.ts";
export {
  type KubeconfigOptions,
  loadConfig,
  loadInCluster,
  loadKubeconfig,
  type ResolvedConfig,
} from "./kubeconfig.ts";
export { KubeconfigError } from "./kubeconfig-file.ts";
export * from "./kubeconfig-text.ts";
export * from "./object.ts";
export * from "./resource.ts";
export { type ConnectOptions, connect } from "./rest-client.ts";
export type { Impersonation, RequestOutcome } from "./transport.ts";
