/** The composition root: builds a running Berth from the listed capabilities. */

import { fleet } from "@berth/fleet";
import { type AdmissionSettings, createHost, documentOfFlag, type Host, WEBHOOK } from "@berth/host";
import { type KubeClient, type Node, nodes, type ObjectReference } from "@berth/kube";
import {
  type BoundCapability,
  createPlaceStore,
  DeclaredPlaces,
  hasClusterMarks,
  labelFolderKind,
  NodeLog,
  NodeWriter,
  nodeMarksChanged,
  product,
  RemovalBreakers,
  tellAll,
  type Wired,
  type WiredFacts,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Controller,
  clusterName,
  createSilentLogger,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  or,
  PROBES,
  problemOf,
  type RunEnd,
  systemClock,
} from "@berth/runtime";
import { type CapabilityFlags, nodeCapabilities, nodeProjection } from "./capabilities.ts";
import { documentKinds } from "./kinds.ts";
import { grantOfNodePatch, NodeAccess } from "./node-access.ts";
import { declareProblems, nodesReadCheck } from "./probes.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { VERSION } from "./version.ts";

export interface BerthOptions extends Partial<Omit<CapabilityFlags, "userAgent">> {
  /** `:8080`, `127.0.0.1:0`; `0` turns it off. Default off. */
  readonly metricsBindAddress?: string;
  readonly healthProbeBindAddress?: string;
  readonly client: KubeClient;
  /** Asks the API server what reviews need to know, on connections of its own. Default: `client`. */
  readonly questions?: KubeClient;
  /** Stops Berth in order, as disposing does. */
  readonly signal?: AbortSignal;
  /** Recorded on every node. Two Berths on one cluster need different names. Default `berth`. */
  readonly installation?: string;
  /** See `FollowerDeps.graceMs`. Default `CRD_GRACE_MS`, ten minutes. */
  readonly crdGraceMs?: number;
  /** Admission settings. Default: none, so Berth puts the taints of startup gates on nodes after their creation. */
  readonly admission?: AdmissionSettings;
  /** Berth's own namespace, for facts of images. Its pods are never held. Absent: there is none. */
  readonly namespace?: string;
  /** Configuration files and folders, watched. Default none. */
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
  /** Identifies this process in Events and in the Lease, so it must be unique. Default `berth`. */
  readonly identity?: string;
  /** The object of Events about files: the pod, or the namespace of its state. Absent: no such Events. */
  readonly self?: ObjectReference;
  /** The Lease for leader election. Absent: this process is the only one. */
  readonly lease?: { readonly namespace: string; readonly name: string };
  /** Pass a registry to count the requests of `client` in it as well. Default: a new registry. */
  readonly metrics?: MetricsRegistry;
  readonly clock?: Clock;
  /** Default: none. */
  readonly log?: Logger;
}

export interface RunningBerth extends AsyncDisposable {
  readonly nodes: Informer<Node>;
  readonly capabilities: readonly BoundCapability[];
  readonly metrics: MetricsRegistry;
  /** `http://127.0.0.1:8080`; `undefined` when off. */
  readonly metricsUrl: string | undefined;
  readonly healthUrl: string | undefined;
  /** Resolves when everything has stopped, with the reason. Never rejects. */
  readonly ended: Promise<RunEnd>;
  /** The output of `/readyz?verbose`: one line for each problem and warning, none without problems. */
  problems(): readonly string[];
}

/** The cluster of a single Berth. Keys contain it, so that nothing changes when there are several clusters. */
const CLUSTER: ClusterName = clusterName("local");

/** Changes of a node within this time become one write, ms: facts of a new node arrive in bursts. */
const COALESCE_MS = 100;

/** After this time without a change, Berth handles a change at once, ms: a new node has its facts by then. */
const QUIET_MS = 60_000;

/**
 * Starts Berth on a cluster. Resolves once its servers listen, long before its caches are synced. Uses neither the
 * environment nor signals, so that several instances can run in one process.
 *
 * @throws the error of an address that it cannot listen on.
 */
export async function startBerth(options: BerthOptions): Promise<RunningBerth> {
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  const { host, ...parts } = assemble({
    ...options,
    registries: options.registries ?? (await readRegistrySettings()),
    userAgent: `berth/${VERSION}`,
  });
  const { runtime } = host;
  const ended = host.run(signal);
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
  readonly host: Host;
}

function assemble(options: BerthOptions & CapabilityFlags): Assembled {
  const {
    clock = systemClock,
    log = createSilentLogger(),
    installation = "berth",
    namespace,
    lease,
  } = options;
  const {
    client,
    questions,
    metrics: registry,
    config,
    crdGraceMs,
    admission,
    self,
    labelFolder,
    registries,
  } = options;
  const { metricsBindAddress, healthProbeBindAddress: healthBindAddress } = options;
  const host = createHost({
    product,
    client,
    ...(questions && { questions }),
    cluster: CLUSTER,
    installation,
    identity: options.identity ?? "berth",
    grantOf: grantOfNodePatch,
    // The webhook's Service needs ready pods. So a problem of one capability must not make a pod unready.
    vital: [WEBHOOK],
    kinds: documentKinds,
    traces: {
      whenKnown: (signal) => informer.whenSynced(signal),
      of: (capability) => hasClusterMarks(informer.list(), { installation, capability }),
    },
    clock,
    log,
    admission,
    self,
    ...(registries.proxyFor && { proxyFor: registries.proxyFor }),
    ...(lease && { lease }),
    ...(registry && { metrics: registry }),
    ...(config && { config }),
    ...(labelFolder && { ofFlags: [documentOfFlag(labelFolderKind, labelFolder)] }),
    ...(crdGraceMs !== undefined && { crdGraceMs }),
    ...(metricsBindAddress !== undefined && { metricsBindAddress }),
    ...(healthBindAddress !== undefined && { healthBindAddress }),
  });
  const { runtime, events, metrics } = host;
  const informer = runtime.informer<Node>(nodes, {
    project: nodeProjection(),
    indexes: Object.assign({}, ...nodeCapabilities.map(({ indexes }) => indexes)),
    // Berth decides each node separately, so writing starts while the snapshot arrives. With a lease, a replica
    // waits for the snapshot, because it must not lead before it can read.
    eager: lease === undefined,
  });
  runtime.readyChecks.push(nodesReadCheck(informer));
  declareProblems(metrics, runtime.readyChecks);
  const breakers = new RemovalBreakers((rule, frozen) => {
    for (const { onFrozen } of wired) onFrozen?.(rule, frozen);
  });
  const nodeHost = {
    ...options,
    ...host,
    nodes: informer,
    frozen: () => breakers.frozen,
    facts: (): readonly WiredFacts[] => wired.flatMap(({ facts }) => facts ?? []),
    recheck: (name: string) =>
      controller.enqueue(keyOf(CLUSTER, { metadata: { name } }), { priority: "high" }),
    recheckAll() {
      for (const node of informer.list()) controller.enqueue(keyOf(CLUSTER, node), { priority: "low" });
    },
  };
  const wired: readonly Wired[] = nodeCapabilities.map(({ wire }) => wire(nodeHost));
  fleet.wire(nodeHost);
  const bound = wired.flatMap(({ capability }) => capability ?? []);
  const nouns = new Map(nodeCapabilities.flatMap(({ name, noun }) => (noun ? [[name, noun] as const] : [])));
  const nodeLog = new NodeLog({ clock, log, nouns });
  const access = new NodeAccess(host.client);
  const writer = new NodeWriter({
    nodes: informer,
    api: access,
    capabilities: bound,
    installation,
    clock,
    events,
    metrics,
    observer: tellAll([...wired.flatMap(({ observer }) => observer ?? []), nodeLog]),
    breakers,
    places: new DeclaredPlaces(
      clock,
      namespace === undefined ? undefined : createPlaceStore(host.client, { namespace, installation }),
    ),
  });
  host.add([access, nodeLog], "elected");
  const controller: Controller = runtime.addController<Node>({
    name: "nodes",
    for: nodes,
    predicate: or(nodeMarksChanged, ...nodeCapabilities.flatMap(({ changed }) => changed ?? [])),
    reconcile: writer.reconcile,
    queue: { coalesceMs: COALESCE_MS, quietMs: QUIET_MS },
  });
  return { host, nodes: informer, capabilities: bound };
}
