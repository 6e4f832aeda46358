/** The composition root: a running Berth is put together here, out of the capabilities in the list. */
import {
  type AdmissionSettings,
  createHost,
  documentOfFlag,
  type Host,
  keepFields,
  WEBHOOK,
} from "@berth/host";
import { type KubeClient, type Node, nodes, type ObjectReference } from "@berth/kube";
import {
  type BoundCapability,
  createPlaceStore,
  DaemonSetWatch,
  DeclaredPlaces,
  hasClusterMarks,
  labelFolderKind,
  NodeLog,
  NodeWriter,
  nodeMarksChanged,
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
import { type CapabilityFlags, capabilities } from "./capabilities.ts";
import { documentKinds } from "./kinds.ts";
import { grantOfNodePatch, NodeAccess } from "./node-access.ts";
import { declareProblems, nodesReadCheck } from "./probes.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { VERSION } from "./version.ts";

export interface BerthOptions extends Partial<Omit<CapabilityFlags, "userAgent">> {
  /** `:8080`, `127.0.0.1:0`; `0` is off. Default off. */
  readonly metricsBindAddress?: string;
  readonly healthProbeBindAddress?: string;
  readonly client: KubeClient;
  /** Ends it, in order. Disposing does the same. */
  readonly signal?: AbortSignal;
  /** Recorded on every node; two Berths on one cluster need different names. Default `berth`. */
  readonly installation?: string;
  /** See `FollowerDeps.graceMs`. Default `CRD_GRACE_MS`, ten minutes. */
  readonly crdGraceMs?: number;
  /** What puts the taints of startup gates on new nodes. Default: nothing does, and they are gated afterwards. */
  readonly admission?: AdmissionSettings;
  /** Berth's own, where it keeps facts of images, and whose pods are never held. Absent: there is none. */
  readonly namespace?: string;
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
  const { client, metrics: registry, config, crdGraceMs, admission, self, labelFolder } = options;
  const { metricsBindAddress, healthProbeBindAddress: healthBindAddress } = options;
  const host = createHost({
    name: "berth",
    reportingController: "berth.dev/controller",
    client,
    cluster: CLUSTER,
    installation,
    identity: options.identity ?? "berth",
    grantOf: grantOfNodePatch,
    // The Service of the webhook leads to ready pods: one capability that cannot work must not take the others from it.
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
    project: keepFields(...capabilities.map(({ fields = [] }) => fields)),
    indexes: Object.assign({}, ...capabilities.map(({ indexes }) => indexes)),
    // Each node is decided by itself, so writing begins while the snapshot arrives. Who has yet to be elected has time,
    // and should not lead before it can read.
    eager: lease === undefined,
  });
  runtime.readyChecks.push(nodesReadCheck(informer));
  declareProblems(metrics, runtime.readyChecks);
  const daemonSets = new DaemonSetWatch({ client: host.client, cluster: CLUSTER, clock, log, metrics });
  host.add([daemonSets], "caches");
  const nodeHost = {
    ...options,
    ...host,
    nodes: informer,
    daemonSets,
    facts: (): readonly WiredFacts[] => wired.flatMap(({ facts }) => facts ?? []),
    recheck: (name: string) =>
      controller.enqueue(keyOf(CLUSTER, { metadata: { name } }), { priority: "high" }),
    recheckAll() {
      for (const node of informer.list()) controller.enqueue(keyOf(CLUSTER, node), { priority: "low" });
    },
  };
  const wired: readonly Wired[] = capabilities.map(({ wire }) => wire(nodeHost));
  const bound = wired.flatMap(({ capability }) => capability ?? []);
  const nodeLog = new NodeLog({ clock, log });
  const access = new NodeAccess(host.client);
  const breakers = wired.find((it) => it.breakers)?.breakers;
  const writer = new NodeWriter({
    nodes: informer,
    api: access,
    capabilities: bound,
    installation,
    clock,
    events,
    metrics,
    observer: tellAll([...wired.flatMap(({ observer }) => observer ?? []), nodeLog]),
    ...(breakers && { breakers }),
    places: new DeclaredPlaces(
      clock,
      namespace === undefined ? undefined : createPlaceStore(host.client, { namespace, installation }),
    ),
  });
  host.add([access, nodeLog], "elected");
  const controller: Controller = runtime.addController<Node>({
    name: "nodes",
    for: nodes,
    predicate: or(nodeMarksChanged, ...capabilities.flatMap(({ changed }) => changed ?? [])),
    reconcile: writer.reconcile,
    queue: { coalesceMs: COALESCE_MS, quietMs: QUIET_MS },
  });
  return { host, nodes: informer, capabilities: bound };
}
