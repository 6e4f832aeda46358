/** The composition root: every part of a running Berth is made and put together here. Long because it is one list. */

import type { Fault } from "@berth/host";
import { faultEvent } from "@berth/host";
import {
  type KubeClient,
  type KubeObject,
  type Node,
  nodes,
  type ObjectReference,
  type Resource,
} from "@berth/kube";
import {
  architecturePolicies,
  type BoundCapability,
  DaemonSetWatch,
  DeclaredPlaces,
  heldAgainBy,
  type LabelOptions,
  labelFactsChanged,
  labelRules,
  type NodeObserver,
  NodeWriter,
  nodeFootprints,
  nodeMarksChanged,
  startupGates,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Controller,
  clusterName,
  createController,
  createInformer,
  createMetricsRegistry,
  createSilentLogger,
  EventRecorder,
  guardClient,
  type HealthCheck,
  type Informer,
  keyOf,
  LeaderElector,
  type Logger,
  Manager,
  type MetricsRegistry,
  or,
  problemOf,
  type RunEnd,
  systemClock,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { createAdmission } from "./admission.ts";
import { createArchitectureParts } from "./architecture-parts.ts";
import { createAwayReport } from "./away-report.ts";
import type { LabelFolderSource } from "./config/settings.ts";
import { CRD_GRACE_MS, createDocumentFollower, type Follow } from "./document-follower.ts";
import { createFootprintParts } from "./footprint/parts.ts";
import { createGateParts, HELD_AGAIN } from "./gate-parts.ts";
import { createImageLibrary } from "./images/image-library.ts";
import { type RegistrySettings, readRegistrySettings } from "./images/registry-settings.ts";
import { createLabelParts } from "./label-parts.ts";
import { grantOfNodePatch, NodeAccess } from "./node-access.ts";
import { NodeLog } from "./node-log.ts";
import { createPlaceStore } from "./place-config-map.ts";
import { createProbes, nodesReadCheck, type ProbeOptions, type Probes } from "./probes.ts";
import { slimNode } from "./slim-node.ts";
import { type AdmissionSettings, WEBHOOK } from "./webhook-server.ts";
import { createWorkerPoolParts } from "./worker-pool-parts.ts";

export interface BerthOptions extends ProbeOptions {
  readonly client: KubeClient;
  /** Ends it, in order. Disposing does the same. */
  readonly signal?: AbortSignal;
  /** Recorded on every node; two Berths on one cluster need different names. Default `berth`. */
  readonly installation?: string;
  readonly labelFolder?: LabelFolderSource;
  /** For `LabelRule` documents, of files and of the cluster. Default: no reserved key. */
  readonly ruleOptions?: LabelOptions;
  /** See `FollowerDeps.graceMs`. Default `CRD_GRACE_MS`, ten minutes. */
  readonly crdGraceMs?: number;
  /** What puts the taints of startup gates on new nodes. Default: nothing does, and they are gated afterwards. */
  readonly admission?: AdmissionSettings;
  /** How registries are reached. Default: as without a document `ImageRegistries`. */
  readonly registries?: RegistrySettings;
  /** Berth's own, where it keeps facts of images, and whose pods are never held. Absent: there is none. */
  readonly namespace?: string;
  /** Idle nodes that are there at the start are gated, however old. Default false. */
  readonly backfillAtStart?: boolean;
  /** Configuration files and folders, watched. Default none. */
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
  /** Names this process in Events and in the Lease; unlike that of any other process. Default `berth`. */
  readonly identity?: string;
  /** What Events about files regard: the pod, or the namespace of its state. Absent: such Events are not written. */
  readonly self?: ObjectReference;
  /** The Lease to compete for. Absent: this process is the only one. */
  readonly lease?: { readonly namespace: string; readonly name: string };
  /** Default: a registry of its own. Given, to count in it the requests of `client` as well. */
  readonly metrics?: MetricsRegistry;
  readonly clock?: Clock;
  /** Default: none. */
  readonly log?: Logger;
}

/** A Berth that runs. */
export interface RunningBerth extends AsyncDisposable {
  readonly nodes: Informer<Node>;
  readonly capabilities: readonly BoundCapability[];
  readonly metrics: MetricsRegistry;
  /** `http://127.0.0.1:8080`; `undefined` when off. */
  readonly metricsUrl: string | undefined;
  readonly healthUrl: string | undefined;
  /** Resolves when everything has stopped, with the reason. Never rejects. */
  readonly ended: Promise<RunEnd>;
  /** What `/readyz?verbose` says: one line per problem and warning, none when all is well. */
  problems(): readonly string[];
}

/** The cluster a single Berth works on; keys carry it, so that nothing changes when there are many. */
const CLUSTER: ClusterName = clusterName("local");

/** Changes of a node within this time are one write: facts of a fresh node arrive in bursts. */
const COALESCE_MS = 100;

/**
 * Starts Berth on a cluster and resolves once its servers listen, long before its caches are synced. Touches neither
 * the environment nor signals, so that several can run in one process, one after another or side by side.
 *
 * @throws what an address that cannot be listened on throws.
 */
export async function startBerth(options: BerthOptions): Promise<RunningBerth> {
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  const parts = assemble(options, options.registries ?? (await readRegistrySettings()));
  const manager = parts.manager;
  const ended = manager.run(signal);
  await Promise.race([parts.listening, ended]);
  const end = parts.failedToListen();
  if (end !== undefined) {
    await ended;
    throw end;
  }
  return {
    nodes: parts.nodes,
    capabilities: parts.capabilities,
    metrics: parts.metrics,
    metricsUrl: parts.servers()?.metricsUrl,
    healthUrl: parts.servers()?.healthUrl,
    ended,
    problems: () =>
      manager.readyChecks.flatMap((one) => {
        const problem = problemOf(one);
        return problem === undefined ? [] : [`${one.name}: ${problem}`];
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

interface Parts extends Omit<Probes, "component"> {
  readonly manager: Manager;
  readonly nodes: Informer<Node>;
  readonly capabilities: readonly BoundCapability[];
  readonly metrics: MetricsRegistry;
}

function assemble(options: BerthOptions, registries: RegistrySettings): Parts {
  const { clock = systemClock, log = createSilentLogger(), installation = "berth" } = options;
  const { identity = "berth", lease, crdGraceMs: graceMs = CRD_GRACE_MS } = options;
  const metrics = options.metrics ?? createMetricsRegistry();
  const common = { clock, log, metrics };
  const election = lease && new LeaderElector({ client: options.client, lease, identity, ...common });
  const mayWrite = (): boolean => election?.mayWrite ?? true;
  const client = guardClient(options.client, { clock, log, mayWrite, grantOf: grantOfNodePatch });
  const events = new EventRecorder({ client, reportingInstance: identity, ...common });
  const informer = createInformer<Node>({
    client,
    cluster: CLUSTER,
    resource: nodes,
    project: slimNode,
    indexes: { [HELD_AGAIN]: heldAgainBy },
    // Each node is decided by itself, so writing begins while the snapshot arrives. Who has yet to be elected has time,
    // and should not lead before it can read.
    eager: lease === undefined,
    ...common,
  });
  const documentsOf = <T extends KubeObject>(resource: Resource<T>): Informer<T> =>
    createInformer<T>({ client, cluster: CLUSTER, resource, optional: true, ...common });
  const rules = documentsOf(labelRules);
  const gateInformer = documentsOf(startupGates);
  const policyInformer = documentsOf(architecturePolicies);
  const footprintInformer = documentsOf(nodeFootprints);
  const recheck = (name: string): void =>
    controller.enqueue(keyOf(CLUSTER, { metadata: { name } }), { priority: "high" });
  const recheckAll = (): void => {
    for (const node of informer.list()) controller.enqueue(keyOf(CLUSTER, node), { priority: "low" });
  };
  const onFault = (fault: Fault): void => {
    const { file, line, column, severity, reason, message } = fault;
    log[severity === "error" ? "error" : "warn"](message, { file, line, column, reason });
    if (options.self !== undefined) events.record(faultEvent(fault, options.self));
  };
  const onAway = createAwayReport({ events, self: options.self, ...common });
  const follow: Follow = (kind) =>
    createDocumentFollower(kind, { client, nodes: informer, installation, clock, graceMs, onAway });
  const labels = createLabelParts(options, {
    client,
    cluster: CLUSTER,
    nodes: informer,
    rules,
    follow,
    events,
    installation,
    onChange: recheckAll,
    onFault,
    onSettings(settings) {
      gates.onSettings(settings);
      architecture.onSettings(settings);
      footprints.onSettings(settings);
      workerPools.onSettings(settings);
    },
    ...common,
  });
  const daemonSets = new DaemonSetWatch({
    client,
    cluster: CLUSTER,
    onChange() {
      gates.daemonSetsChanged();
      footprints.daemonSetsChanged();
    },
    onSynced: () => architecture.daemonSetsSynced(),
    onVersion({ object }) {
      const key = keyOf(CLUSTER, object);
      architecture.daemonSetChanged(key);
      footprints.daemonSetChanged(key);
    },
    ...common,
  });
  const gates = createGateParts({
    client,
    cluster: CLUSTER,
    nodes: informer,
    gates: gateInformer,
    follow,
    daemonSets,
    events,
    installation,
    labels,
    backfillAtStart: options.backfillAtStart ?? false,
    admission: () => admission?.ofNodes(),
    directBinding: () => admission?.ofBindings(),
    onChange: () => admission?.gatesChanged(),
    onFault,
    recheck,
    recheckAll,
    ...common,
  });
  const { namespace } = options;
  const images = createImageLibrary({
    client,
    cluster: CLUSTER,
    installation,
    ...(namespace !== undefined && { namespace }),
    registries,
    ...common,
  });
  const architecture = createArchitectureParts({
    client,
    cluster: CLUSTER,
    nodes: informer,
    policies: policyInformer,
    follow,
    daemonSets,
    images,
    events,
    ownNamespace: namespace,
    admission: () => admission?.ofPods(),
    onChange: () => admission?.policiesChanged(),
    onFault,
    recheckAll,
    ...common,
  });
  const footprints = createFootprintParts({
    client,
    cluster: CLUSTER,
    installation,
    nodes: informer,
    footprints: footprintInformer,
    follow,
    daemonSets,
    events,
    admission: () => admission?.ofWaits(),
    onChange: () => admission?.footprintsChanged(),
    onFault,
    recheck,
    recheckAll,
    ...common,
  });
  const workerPools = createWorkerPoolParts({ client, cluster: CLUSTER, events, ...common });
  const admission =
    options.admission &&
    createAdmission(options.admission, {
      client,
      cluster: CLUSTER,
      installation,
      nodes: informer,
      gates,
      architecture,
      footprints,
      ...(lease && { lease }),
      ...common,
    });
  const capabilities = [labels.capability, gates.capability, architecture.capability, footprints.capability];
  const nodeLog = new NodeLog({ clock, log });
  const access = new NodeAccess(client);
  const writer = new NodeWriter({
    nodes: informer,
    api: access,
    capabilities,
    installation,
    clock,
    events,
    metrics,
    observer: tellAll([labels.observer, gates.observer, architecture.observer, footprints.observer, nodeLog]),
    breakers: labels.breakers,
    places: new DeclaredPlaces(
      clock,
      namespace === undefined ? undefined : createPlaceStore(client, { namespace, installation }),
    ),
  });
  const controller: Controller = createController({
    name: "nodes",
    reconcile: writer.reconcile,
    sources: [
      watchFor<Node>({
        informer,
        predicate: or(nodeMarksChanged, labelFactsChanged),
        map: toSelf(CLUSTER),
      }),
    ],
    queue: { coalesceMs: COALESCE_MS },
    ...common,
  });
  const checks: HealthCheck[] = [];
  const probes = createProbes(options, { checks, metrics, log, clock });
  const manager = new Manager({
    always: [
      [probes.component],
      [events, labels.source],
      [
        informer,
        rules,
        gateInformer,
        policyInformer,
        footprintInformer,
        daemonSets,
        ...gates.watches,
        ...architecture.watches,
        ...footprints.watches,
        ...workerPools.watches,
        ...images.always,
      ],
      [
        labels.follower,
        gates.follower,
        architecture.follower,
        footprints.follower,
        ...(admission?.always ?? []),
      ],
    ],
    elected: [
      access,
      nodeLog,
      controller,
      labels.controller,
      gates.controller,
      ...architecture.elected,
      ...footprints.elected,
      ...workerPools.elected,
      ...images.elected,
      ...(admission?.elected ?? []),
    ],
    // The Service of the webhook leads to ready pods: one capability that cannot work must not take the others from it.
    vital: [WEBHOOK],
    ...(election && { election }),
    clock,
    log,
  });
  checks.push(...manager.readyChecks, nodesReadCheck(informer));
  return { manager, nodes: informer, capabilities, metrics, ...probes };
}

function tellAll(observers: readonly NodeObserver[]): NodeObserver {
  return {
    decided(name, outcome) {
      for (const observer of observers) observer.decided(name, outcome);
    },
    written(...about) {
      for (const observer of observers) observer.written?.(...about);
    },
    gone(name) {
      for (const observer of observers) observer.gone(name);
    },
  };
}
