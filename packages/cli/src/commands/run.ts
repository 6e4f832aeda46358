import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import path from "node:path";
import { setFlagsFromString } from "node:v8";
import {
  admissionServerKind,
  baseName,
  defaultAdmissionServer,
  duration,
  durationMs,
  MAX_QUESTIONS,
} from "@berth/host";
import { connect, isApiError, type KubeClient, type ObjectReference } from "@berth/kube";
import {
  berthAs,
  type ImageRegistriesSpec,
  imageRegistriesKind,
  product,
  type RegistrySettings,
} from "@berth/placement";
import {
  createJsonLogger,
  createMetricsRegistry,
  declareApiMetrics,
  describeRunEnd,
  type Logger,
  type LogLevel,
  sleep,
} from "@berth/runtime";
import type { CommandDeps } from "../command-deps.ts";
import { startBerth } from "../composition.ts";
import {
  labelFolderOfFlags,
  labelOptionsOfFlags,
  loadSettings,
  type RuleOptions,
} from "../config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster, exists } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { describeApiError } from "../failure-text.ts";
import { type FleetOptions, openFleet, readFleet } from "../fleet-settings.ts";
import { readAuthorities, readRegistrySettings } from "../registry-settings.ts";
import { collectStartGarbage } from "../start-garbage.ts";
import { findStateNamespace, type StateNamespace } from "../state-namespace.ts";
import { VERSION } from "../version.ts";

export interface RunOptions extends ConnectionOptions, RuleOptions, FleetOptions {
  readonly installation: string;
  readonly namespace?: string;
  readonly metricsBindAddress: string;
  readonly healthProbeBindAddress: string;
  readonly leaderElect?: boolean;
  readonly crdGrace: string;
  readonly logLevel: LogLevel;
  /** True without a subcommand: the label folder defaults to that of the original. */
  readonly originalForm: boolean;
}

/**
 * How much the heap may grow until V8 collects all of it. By default up to four times what is alive: 400 Instances with
 * large templates then leave 60 MB more that the process keeps. V8 reads it at each collection.
 */
const HEAP_GROWTH = "--heap-growing-percent=50";

/** Until a cell that runs alone starts again after its Lease was lost, ms. */
const AGAIN_MS = 1_000;

/** Runs until the user stops it, or until it cannot continue. */
export async function run(given: RunOptions, deps: CommandDeps): Promise<ExitCode> {
  setFlagsFromString(HEAP_GROWTH);
  const { stdout, signal, clock } = deps;
  const log = createJsonLogger({
    level: given.logLevel,
    ...(stdout.isTerminal ? { destination: stdout } : {}),
  });
  // Its next life must not wait for the Lease of the one before.
  const self = { identity: `${deps.environment["POD_NAME"] || hostname()}_${randomUUID().slice(0, 8)}`, log };
  let hasRun = false;
  do {
    try {
      const end = await live(given, deps, self);
      if (end !== "again") return end;
      log.warn("the Lease could not be renewed in time: Berth starts again, as no other replica stands by");
    } catch (error) {
      if (!hasRun || signal.aborted) throw error;
      log.warn("Berth cannot start again yet", {
        error: error instanceof Error ? error.message : String(error),
      });
    }
    hasRun = true;
  } while (await sleep(clock, AGAIN_MS, signal));
  return exitCodes.done;
}

/** @returns `again`: it lost a Lease that it keeps only to be heard. */
async function live(
  given: RunOptions,
  deps: CommandDeps,
  { identity, log }: { readonly identity: string; readonly log: Logger },
): Promise<ExitCode | "again"> {
  const { folder, signal } = deps;
  const options = await withDefaultFolder(given, folder);
  const labelFolder = labelFolderOfFlags(options, folder);
  const ruleOptions = labelOptionsOfFlags(options);
  const settings = await loadSettings(options, folder);
  const asked = await readFleet(options, settings, { folder });
  const { POD_NAME: podName } = deps.environment;
  const cluster = await chooseCluster(options, deps);
  const metrics = createMetricsRegistry({ prefix: `${product.name}_` });
  const onAnswer = declareApiMetrics(metrics);
  const connection = { ...cluster.connect, userAgent: `berth/${VERSION}`, onAnswer };
  await using client = connect(connection);
  // Any user can cause reviews. What these ask must not delay writes and Leases.
  await using questions = connect({ ...connection, maxWriteConnections: MAX_QUESTIONS });
  await meetCluster(client, cluster, { log, signal });
  await using fleet = asked && (await openFleet(asked, deps));
  const lease = baseName(berthAs(options.installation));
  const { mode } = asked?.spec ?? {};
  // The hub hears a cell by its Lease, so a process that is alone keeps it too.
  const elects = options.leaderElect === true || mode === "cell";
  const ofState = { wanted: options.namespace ?? options.leaderElectNamespace, cluster, signal };
  const namespace = await findStateNamespace(client, {
    ...ofState,
    // The Secrets of Cells are in it, and the Lease of a cell.
    isNeeded: mode === "management" || mode === "cell",
  });
  const { installation } = options;
  log.info("berth starts", {
    version: VERSION,
    server: client.server,
    from: cluster.origin,
    installation,
    namespace: namespace.name,
  });
  sayWhatIsMissing(options, namespace, log);
  for (const note of asked?.notes ?? []) log.warn(`${options.serverConfig}: ${note}`);
  const images = settings.specOf(imageRegistriesKind);
  const registries = await readRegistrySettings(images, deps.environment);
  sayPlugins(images, registries, log);
  const admission = settings.specOf(admissionServerKind) ?? { ...defaultAdmissionServer, ...asked?.webhook };
  const { clientCertificateAuthority: authority } = admission;
  const clientAuthority = authority && (await readAuthorities("API servers", authority));
  const metricsBindAddress = asked?.metricsBindAddress ?? options.metricsBindAddress;
  const { healthProbeBindAddress } = options;
  const berth = await startBerth({
    client,
    questions,
    signal,
    installation,
    ...(labelFolder && { labelFolder }),
    ruleOptions,
    ...(fleet && { fleet }),
    crdGraceMs: graceMsOf(options),
    config: (options.config ?? []).map((shown) => ({ path: path.resolve(folder, shown), shown })),
    backfillAtStart: deps.environment["STARTUP_BACKFILL"] === "1",
    admission: {
      spec: admission,
      ...(clientAuthority && { clientAuthority }),
      ...(namespace.exists && { namespace: namespace.name }),
      inCluster: cluster.inCluster,
      ...(podName && { podName }),
    },
    registries,
    ...(namespace.exists && { namespace: namespace.name }),
    identity,
    ...(namespace.exists && { self: selfOf(deps, namespace) }),
    ...(elects && { lease: { namespace: namespace.name, name: lease } }),
    metricsBindAddress,
    healthProbeBindAddress,
    metrics,
    clock: deps.clock,
    log,
  }).catch(explainAddress);
  const over = new AbortController();
  void berth.ended.finally(() => over.abort());
  void collectStartGarbage(berth.nodes, {
    clock: deps.clock,
    signal: AbortSignal.any([signal, over.signal]),
  });
  const { metricsUrl, healthUrl } = berth;
  log.info("serving", { metrics: metricsUrl, health: healthUrl, metricsBindAddress, healthProbeBindAddress });
  const end = await berth.ended;
  if (end.reason === "stopped") return exitCodes.done;
  if (end.reason !== "lost leadership") throw new CommandError(describeRunEnd(end));
  if (!options.leaderElect) return "again";
  throw new CommandError(
    `${describeRunEnd(end)}: another process holds the Lease ${namespace.name}/${end.lease ?? lease}, or it could not be renewed in time; start berth again to stand by`,
    exitCodes.leaseLost,
  );
}

/** @throws CommandError when the text is not a duration. */
function graceMsOf({ crdGrace }: RunOptions): number {
  const parsed = duration.safeParse(crdGrace);
  if (parsed.success) return durationMs(parsed.data);
  throw new CommandError(`--crd-grace ${crdGrace}: ${parsed.error.issues[0]?.message}`, exitCodes.usage);
}

/** Rule folder in the image of k8s-auto-labeller: a container that mounts its rules there needs no arguments. */
const IMAGE_FOLDER = "/labels";

/**
 * Sets the default label folder when the user passes neither a folder nor a document. The original form fails without a
 * folder, as the original did.
 */
async function withDefaultFolder(options: RunOptions, folder: string): Promise<RunOptions> {
  if (options.labelDir || (options.config ?? []).length > 0) return options;
  for (const labelDir of options.originalForm ? ["labels", IMAGE_FOLDER] : [IMAGE_FOLDER]) {
    if (await exists(path.resolve(folder, labelDir))) return { ...options, labelDir };
  }
  if (!options.originalForm) return options;
  throw new CommandError(
    "there is no folder labels here, and no /labels: give one with -label-dir, or see berth --help for the commands",
  );
}

/**
 * Checks once that the API server answers. Outside a cluster a failure ends the command. A pod may start before its API
 * server is reachable, so it continues.
 */
async function meetCluster(
  client: KubeClient,
  { inCluster, origin }: ClusterChoice,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  try {
    await client.read("/version", { timeoutMs: 5000, signal });
  } catch (error) {
    if (!isApiError(error) || error.failure.kind === "forbidden") return;
    signal.throwIfAborted();
    if (!inCluster) {
      throw new CommandError(`${describeApiError(error)} (${client.server}, ${origin})`, exitCodes.cluster);
    }
    log.warn("the API server does not answer yet; trying again", { error: error.message });
  }
}

/** A variable may be missing on purpose, as some are for one way of several. */
function sayPlugins(
  spec: ImageRegistriesSpec | undefined,
  { credentialPlugins: plugins }: RegistrySettings,
  log: Logger,
): void {
  if (plugins === undefined) return;
  const missing = spec?.credentialPlugins?.environment.filter((name) => !(name in plugins.environment)) ?? [];
  const { folder, providers } = plugins;
  log.info("credential plugins are used", {
    folder,
    providers: providers.map(({ name }) => name),
    ...(missing.length > 0 && { variablesNotSet: missing }),
  });
}

/** @throws CommandError when the user asks for leader election, and its namespace does not exist. */
function sayWhatIsMissing(options: RunOptions, { name, exists }: StateNamespace, log: Logger): void {
  if (!options.labelDir && (options.config ?? []).length === 0) {
    log.info(
      "there are no rules in files (--label-dir, --config): Berth uses those of the cluster, where it has the CRDs",
    );
  }
  if (exists) return;
  if (options.leaderElect) {
    throw new CommandError(
      `--leader-elect needs the namespace ${name}: create it, or choose one with --namespace`,
    );
  }
  log.warn(
    "the namespace does not exist: state is kept in memory, and faults of files are only logged and counted",
    { namespace: name },
  );
}

/** The object of Events about files. The Deployment of `berth manifests` sets `POD_NAME` and `POD_UID`. */
function selfOf({ environment }: CommandDeps, { name: namespace, uid }: StateNamespace): ObjectReference {
  const { POD_NAME: pod, POD_UID: podUid } = environment;
  if (pod) return { apiVersion: "v1", kind: "Pod", name: pod, namespace, ...(podUid ? { uid: podUid } : {}) };
  return { apiVersion: "v1", kind: "Namespace", name: namespace, namespace, ...(uid ? { uid } : {}) };
}

function explainAddress(error: unknown): never {
  if (!(error instanceof Error)) throw error;
  if (error instanceof RangeError) throw new CommandError(error.message, exitCodes.usage);
  const { code, message }: NodeJS.ErrnoException = error;
  if (code !== "EADDRINUSE" && code !== "EACCES" && code !== "EADDRNOTAVAIL") throw error;
  throw new CommandError(
    `${message}; choose another with --metrics-bind-address and --health-probe-bind-address, or 0 for none`,
    exitCodes.failed,
    { cause: error },
  );
}
