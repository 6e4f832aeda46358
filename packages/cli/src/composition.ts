/** The composition root: every part of a running Berth is made and put together here. Long because it is one list. */

import {
  type AdmissionSettings,
  CRD_GRACE_MS,
  createAwayReport,
  createConfigFollower,
  createDocumentFollower,
  documentOfFlag,
  type Fault,
  type Follow,
  faultEvent,
  keepFields,
  WEBHOOK,
} from "@berth/host";
import { type KubeClient, type Node, nodes, type ObjectReference } from "@berth/kube";
import type { Wired } from "@berth/placement";
import {
  architectureFields,
  architecturePolicies,
  type BoundCapability,
  createImageLibrary,
  createPlaceStore,
  DaemonSetWatch,
  DeclaredPlaces,
  footprintFields,
  gateFields,
  HELD_AGAIN,
  hasClusterMarks,
  heldAgainBy,
  type LabelFolderSource,
  type LabelOptions,
  labelFactsChanged,
  labelFields,
  labelFolderKind,
  labelRules,
  NodeLog,
  NodeWriter,
  nodeFootprints,
  nodeMarksChanged,
  type RegistrySettings,
  startupGates,
  tellAll,
  wireArchitecture,
  wireFootprints,
  wireGates,
  wireLabels,
  wireWorkerPools,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Controller,
  clusterName,
  createRuntime,
  createSilentLogger,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  or,
  PROBES,
  problemOf,
  type RunEnd,
  type Runtime,
  START_STAGES,
  systemClock,
} from "@berth/runtime";
import { createAdmissionOfAll } from "./admission.ts";
import { documentKinds } from "./kinds.ts";
import { grantOfNodePatch, NodeAccess } from "./node-access.ts";
import { declareProblems, nodesReadCheck } from "./probes.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { VERSION } from "./version.ts";

export interface BerthOptions {
  /** `:8080`, `127.0.0.1:0`; `0` is off. Default off. */
  readonly metricsBindAddress?: string;
  readonly healthProbeBindAddress?: string;
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

/** The first change of a node after so long is answered at once: by then a fresh node has its facts. */
const QUIET_MS = 60_000;

/**
 * Starts Berth on a cluster and resolves once its servers listen, long before its caches are synced. Touches neither
 * the environment nor signals, so that several can run in one process, one after another or side by side.
 *
 * @throws what an address that cannot be listened on throws.
 */
export async function startBerth(options: BerthOptions): Promise<RunningBerth> {
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  const { runtime, ...parts } = assemble(options, options.registries ?? (await readRegistrySettings()));
  const ended = runtime.run(signal);
  const early = await Promise.race([runtime.listening, ended]);
  if (early?.reason === "failed" && early.component === PROBES) throw early.error;
  return {
    ...parts,
    metrics: runtime.metrics,
    metricsUrl: runtime.metricsUrl,
    healthUrl: runtime.healthUrl,
    ended,
    problems: () =>
      runtime.readyChecks.flatMap((one) => {
        const problem = problemOf(one);
        return problem === undefined ? [] : [`${one.name}: ${problem}`];
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
    },
  };
}

interface Assembled extends Pick<RunningBerth, "nodes" | "capabilities"> {
  readonly runtime: Runtime;
}

function assemble(options: BerthOptions, registries: RegistrySettings): Assembled {
  const { clock = systemClock, log = createSilentLogger(), installation = "berth", namespace } = options;
  const { identity = "berth", lease, crdGraceMs: graceMs = CRD_GRACE_MS, metricsBindAddress } = options;
  const runtime = createRuntime({
    name: "berth",
    reportingController: "berth.dev/controller",
    client: options.client,
    cluster: CLUSTER,
    identity,
    grantOf: grantOfNodePatch,
    // The Service of the webhook leads to ready pods: one capability that cannot work must not take the others from it.
    vital: [WEBHOOK],
    clock,
    log,
    ...(lease && { lease }),
    ...(options.metrics && { metrics: options.metrics }),
    ...(metricsBindAddress !== undefined && { metricsBindAddress }),
    ...(options.healthProbeBindAddress !== undefined && {
      healthBindAddress: options.healthProbeBindAddress,
    }),
  });
  const { client, events, metrics } = runtime;
  const informer = runtime.informer<Node>(nodes, {
    project: keepFields(labelFields, gateFields, architectureFields, footprintFields),
    indexes: { [HELD_AGAIN]: heldAgainBy },
    // Each node is decided by itself, so writing begins while the snapshot arrives. Who has yet to be elected has time,
    // and should not lead before it can read.
    eager: lease === undefined,
  });
  runtime.readyChecks.push(nodesReadCheck(informer));
  declareProblems(metrics, runtime.readyChecks);
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
  const onAway = createAwayReport({ kinds: documentKinds, events, self: options.self, metrics, log });
  const traces = {
    whenKnown: (signal: AbortSignal) => informer.whenSynced(signal),
    of: (capability: string) => hasClusterMarks(informer.list(), { installation, capability }),
  };
  const follow: Follow = (kind) => createDocumentFollower(kind, { client, traces, clock, graceMs, onAway });
  const { config = [], labelFolder } = options;
  const files = createConfigFollower({
    config,
    kinds: documentKinds,
    ...(labelFolder && { ofFlags: [documentOfFlag(labelFolderKind, labelFolder)] }),
    clock,
    log,
    onDocuments(settings) {
      for (const { onSettings } of wired) onSettings?.(settings);
    },
    onFault,
  });
  const optional = { optional: true } as const;
  const common = { client, cluster: CLUSTER, installation, nodes: informer, follow, events, onFault };
  const machine = { clock, log, metrics };
  const daemonSets = new DaemonSetWatch({ client, cluster: CLUSTER, ...machine });
  const labels = wireLabels(options, {
    ...common,
    ...machine,
    rules: runtime.informer(labelRules, optional),
    filesRead: files.firstReading,
    onChange: recheckAll,
  });
  const gates = wireGates({
    ...common,
    ...machine,
    gates: runtime.informer(startupGates, optional),
    daemonSets,
    labels,
    backfillAtStart: options.backfillAtStart ?? false,
    admission: () => admission?.of("startup-gate")?.state(),
    directBinding: () => admission?.of("direct-binding")?.state(),
    onChange() {
      admission?.of("startup-gate")?.changed();
      admission?.of("direct-binding")?.changed();
    },
    recheck,
    recheckAll,
  });
  const architecture = wireArchitecture({
    ...common,
    ...machine,
    policies: runtime.informer(architecturePolicies, optional),
    daemonSets,
    images: createImageLibrary({
      client,
      cluster: CLUSTER,
      installation,
      ...(namespace !== undefined && { namespace }),
      registries,
      userAgent: `berth/${VERSION}`,
      ...machine,
    }),
    ownNamespace: namespace,
    admission: () => admission?.of("architecture")?.state(),
    onPod: (change) => admission?.of("architecture")?.seen(change),
    onChange: () => admission?.of("architecture")?.changed(),
    recheckAll,
  });
  const footprints = wireFootprints({
    ...common,
    ...machine,
    footprints: runtime.informer(nodeFootprints, optional),
    daemonSets,
    admission: () => admission?.of("footprint")?.state(),
    onChange: () => admission?.of("footprint")?.changed(),
    recheck,
    recheckAll,
  });
  const workerPools = wireWorkerPools({ client, cluster: CLUSTER, events, ...machine });
  const wired: readonly Wired[] = [labels, gates, architecture, footprints, workerPools];
  const admission =
    options.admission &&
    createAdmissionOfAll(options.admission, {
      ...common,
      ...machine,
      gates,
      architecture,
      footprints,
      ...(lease && { lease }),
    });
  const capabilities = wired.flatMap(({ capability }) => capability ?? []);
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
    observer: tellAll([...wired.flatMap(({ observer }) => observer ?? []), nodeLog]),
    breakers: labels.breakers,
    places: new DeclaredPlaces(
      clock,
      namespace === undefined ? undefined : createPlaceStore(client, { namespace, installation }),
    ),
  });
  for (const component of [access, nodeLog]) runtime.add(component, "elected");
  const controller: Controller = runtime.addController<Node>({
    name: "nodes",
    for: nodes,
    predicate: or(nodeMarksChanged, labelFactsChanged),
    reconcile: writer.reconcile,
    queue: { coalesceMs: COALESCE_MS, quietMs: QUIET_MS },
  });
  runtime.add(files, "first");
  runtime.add(daemonSets, "caches");
  for (const { components } of wired)
    for (const stage of START_STAGES)
      for (const component of components[stage] ?? []) runtime.add(component, stage);
  for (const component of admission?.always ?? []) runtime.add(component, "everywhere");
  for (const component of admission?.elected ?? []) runtime.add(component, "elected");
  return { runtime, nodes: informer, capabilities };
}
