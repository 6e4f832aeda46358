export {
  type AuthorityOptions,
  type CertificateFacts,
  type CertificatePair,
  createAuthority,
  inspectCertificate,
  issueServingCertificate,
  type ServingOptions,
} from "./admission/certificate-authority.ts";
export {
  type CertificateFolder,
  type CertificateFolderOptions,
  createCertificateFolder,
} from "./admission/certificate-folder.ts";
export {
  CertificateKeeper,
  type CertificateKeeperOptions,
  type SecretClient,
} from "./admission/certificate-keeper.ts";
export { type CertificateMemoryOptions, createCertificateMemory } from "./admission/certificate-memory.ts";
export type { CertificateSource } from "./admission/certificate-source.ts";
export {
  createObjectKeeper,
  type ObjectKeeper,
  type ObjectKeeperOptions,
} from "./admission/object-keeper.ts";
export type {
  AdmissionAnswer,
  AdmissionCause,
  AdmissionOperation,
  AdmissionRequest,
  AdmissionUser,
} from "./admission/review.ts";
export type { AdmissionContext, AdmissionHandler } from "./admission/review-exchange.ts";
export { createRoom, type Room } from "./admission/room.ts";
export * from "./admission/server.ts";
export type { ServingCertificate } from "./admission/serving-context.ts";
export { declareApiMetrics } from "./api-metrics.ts";
export * from "./backoff.ts";
export { type BindAddress, parseBindAddress } from "./bind-address.ts";
export * from "./clock.ts";
export type { ReadLimit } from "./clusters/bounded-reader.ts";
export type { ClusterControllerOptions } from "./clusters/cluster-controller.ts";
export { type ClusterSet, type ClusterSetOptions, createClusterSet } from "./clusters/cluster-set.ts";
export type { ClusterAccess, ClusterCommon, EngagedCluster } from "./clusters/engaged-cluster.ts";
export {
  type FleetView,
  type ViewHandler,
  type ViewRequest,
  type ViewState,
  type WatchViewOptions,
  watchView,
} from "./clusters/fleet-view.ts";
export { type MetricsScope, scopeMetrics } from "./clusters/metrics-scope.ts";
export { type ProbeTarget, readIdentity } from "./clusters/probe.ts";
export type { Reach, ReachCause, Uid } from "./clusters/reachability.ts";
export * from "./component.ts";
export * from "./conditions.ts";
export { type Controller, type ControllerOptions, createController } from "./controller.ts";
export { type EventInput, referenceTo } from "./event-series.ts";
export { type EventClient, EventRecorder, type EventRecorderOptions } from "./events.ts";
export { type FolderWatchOptions, watchFolder } from "./file-source.ts";
export * from "./finalizers.ts";
export {
  type FolderFile,
  type FolderReaderOptions,
  type FolderSnapshot,
  readFolder,
} from "./folder-reader.ts";
export { DEFAULT_FOLDER_LIMITS, type FolderLimits, type FolderProblem } from "./folder-scan.ts";
export type { FolderNotifier } from "./folder-watches.ts";
export { type GuardedClient, type GuardOptions, guardClient, WRITES } from "./guarded-client.ts";
export { type HealthCheck, problemOf } from "./health-checks.ts";
export {
  createFedInformer,
  createInformer,
  type Informer,
  type InformerOptions,
} from "./informer.ts";
export type { Feed, InformerSink } from "./informer-feed.ts";
export { declareInformerGauges, type InformerLabels, type ObservedInformer } from "./informer-metrics.ts";
export * from "./json-log.ts";
export * from "./key.ts";
export * from "./leader-election.ts";
export * from "./lister.ts";
export * from "./log.ts";
export * from "./manager.ts";
export * from "./mapper.ts";
export * from "./metrics.ts";
export * from "./micro-time.ts";
export type { IndexFunction } from "./object-store.ts";
export * from "./predicate.ts";
export * from "./probe-server.ts";
export * from "./prometheus.ts";
export * from "./quantity.ts";
export type { Priority } from "./ready-list.ts";
export * from "./reconcile.ts";
export { dropManagedFields, type ReadingClient } from "./reflector.ts";
export {
  createRuntime,
  PROBES,
  type Runtime,
  type RuntimeControllerOptions,
  type RuntimeOptions,
  type SharedInformerOptions,
  START_STAGES,
  type StartStage,
} from "./runtime.ts";
export { cover } from "./shared/cover.ts";
export { contains, includes, type Scope, scopeOf } from "./shared/scope.ts";
export * from "./shared/shared-informers.ts";
export * from "./shared-failure.ts";
export * from "./source.ts";
export * from "./work-queue.ts";
