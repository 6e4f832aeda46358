import { readFile } from "node:fs/promises";
import path from "node:path";
import {
  clusterReads,
  type Documents,
  type Fault,
  hasErrors,
  isOf,
  LeftOut,
  type OneShotRun,
  Progress,
  parseSnapshot,
  type Recorder,
  readObjects,
  recordReads,
  refusalsTo,
  replayReads,
  type Snapshot,
  sampleReads,
} from "@berth/host";
import {
  ApiError,
  type CollectionScope,
  connect,
  isApiError,
  type KubeClient,
  type KubeObject,
  type Node,
  nameOfResource,
  nodes,
  type Patch,
  type Projection,
  type Resource,
  staticCredential,
} from "@berth/kube";
import { type LabelOptions, labelFolderKind, type ParsedFolder, readLabelFolder } from "@berth/placement";
import { contains, scopeOf } from "@berth/runtime";
import { nodeProjection } from "./capabilities.ts";
import type { CommandDeps, Environment } from "./command-deps.ts";
import { labelOptionsOfFlags, loadSettings, type RuleOptions } from "./config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { findStateNamespace, type StateNamespace } from "./state-namespace.ts";
import { VERSION } from "./version.ts";

/** A connection for one command. At its end it reports what it could not read. */
export interface Session extends OneShotRun, AsyncDisposable {
  /** It reads a snapshot in place of a cluster. Default false. */
  readonly isSnapshot?: boolean;
  readonly choice: ClusterChoice;
  /** The namespace of Berth's own state, whether it exists or not. */
  stateNamespace(): Promise<StateNamespace>;
}

export interface SessionOptions extends ConnectionOptions {
  /** Default `berth`. */
  readonly installation?: string;
  /** Namespace of Berth's own state. Default: that of the pod, else `berth-system`. */
  readonly namespace?: string;
  /** A snapshot to read in place of a cluster. */
  readonly from?: string;
}

/** Chooses the cluster and creates a client. Sends no request yet. */
export async function openSession(options: SessionOptions, deps: CommandDeps): Promise<Session> {
  if (options.from !== undefined) return replaySession(options.from, options, deps);
  const choice = await chooseCluster(options, deps);
  const client = connect({ ...choice.connect, userAgent: `berth/${VERSION}` });
  const leftOut = new LeftOut();
  const reads = clusterReads(client, { ...deps, leftOut });
  return sessionOf({ client, choice, leftOut, ...reads }, options, deps);
}

/** As `openSession`, and records what is read. */
export async function openRecording(
  options: SessionOptions,
  deps: CommandDeps,
): Promise<Session & Pick<Recorder, "taken">> {
  const session = await openSession(options, deps);
  const { taken, ...recorded } = recordReads(session.informers);
  return { ...sessionOf({ ...session, ...recorded }, options, deps), taken };
}

/** Reads a snapshot in place of a cluster, at the time of the snapshot. */
async function replaySession(file: string, options: SessionOptions, deps: CommandDeps): Promise<Session> {
  const snapshot = await readSnapshot(file, deps.folder);
  const leftOut = new LeftOut();
  const now = Date.parse(snapshot.takenAt);
  const clock = { ...deps.clock, now: () => now };
  const choice = { connect: { server: snapshot.server, credential: staticCredential() } };
  const place = { namespace: undefined, origin: file, inCluster: false };
  const client = noClient(snapshot.server);
  const at = { clock, leftOut };
  const reads = { ...clusterReads(client, at), ...replayReads(snapshot, refusalsTo(at)) };
  const means = { client, choice: { ...choice, ...place }, leftOut, ...reads, isSnapshot: true };
  return sessionOf(means, options, { ...deps, clock });
}

/** A session over these objects, as if a cluster had no others. @param now wall clock, ms. */
export function openSample(objects: readonly KubeObject[], now: number, deps: CommandDeps): Session {
  const server = "the sample";
  const leftOut = new LeftOut();
  const clock = { ...deps.clock, now: () => now };
  const choice = {
    connect: { server, credential: staticCredential() },
    namespace: undefined,
    origin: server,
  };
  const client = sampleClient(server, objects);
  const at = { clock, leftOut };
  const reads = { ...clusterReads(client, at), ...sampleReads(objects, refusalsTo(at)) };
  const means = { client, choice: { ...choice, inCluster: false }, leftOut, ...reads, isSnapshot: true };
  return sessionOf(means, {}, { ...deps, clock });
}

/** It gets single objects, such as owners of pods, and lists those of a Workload. */
function sampleClient(server: string, objects: readonly KubeObject[]): KubeClient {
  const absent = (resource: string): ApiError =>
    new ApiError({ kind: "notFound" }, { verb: "get", resource });
  const of: Pick<KubeClient, "server" | "close" | "get" | "pages" | "read"> = {
    server,
    close: () => Promise.resolve(),
    async get(resource, { name, namespace }) {
      const found = objects.find(
        (it) => isOf(resource, it) && it.metadata?.name === name && it.metadata.namespace === namespace,
      );
      if (found === undefined) throw absent(nameOfResource(resource));
      return structuredClone(found) as never;
    },
    async *pages(resource, scope = {}) {
      const wanted = scopeOf(scope);
      const items = objects.filter((it) => isOf(resource, it) && contains(wanted, it));
      yield { items: structuredClone(items) } as never;
    },
    read: (path) => Promise.reject(absent(path)),
  };
  return withoutRequests(of);
}

async function readSnapshot(file: string, folder: string): Promise<Snapshot> {
  try {
    return parseSnapshot(await readFile(path.resolve(folder, file), "utf8"));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(`${file} cannot be used as a snapshot: ${why}`, exitCodes.faults);
  }
}

/** A client for a command that must not send a request. */
function noClient(server: string): KubeClient {
  return withoutRequests({ server, close: () => Promise.resolve() });
}

function withoutRequests(of: Partial<KubeClient>): KubeClient {
  const refuse = (): never => {
    throw new CommandError("this command needs a cluster, and has a snapshot only", exitCodes.usage);
  };
  return new Proxy(of, { get: (target, key) => Reflect.get(target, key) ?? refuse }) as KubeClient;
}

type Means = Pick<
  Session,
  "client" | "choice" | "leftOut" | "cluster" | "informers" | "ask" | "log" | "isSnapshot"
>;

function sessionOf(means: Means, options: SessionOptions, { clock, signal, stderr }: CommandDeps): Session {
  const { client, choice, leftOut, ask } = means;
  let found: Promise<StateNamespace> | undefined;
  const stateNamespace = (): Promise<StateNamespace> =>
    (found ??= ask("namespace of Berth", () =>
      findStateNamespace(client, { wanted: options.namespace, cluster: choice, signal }),
    ));
  return {
    ...means,
    clock,
    signal,
    stderr,
    installation: options.installation ?? "berth",
    stateNamespace,
    async ownNamespace() {
      const { name, exists } = await stateNamespace();
      return exists ? name : undefined;
    },
    async [Symbol.asyncDispose]() {
      leftOut.tell(stderr);
      await client.close();
    },
  };
}

/** The error of a command without any input. It names the missing permissions, or else says `orElse`. */
export function nothingToGoBy({ leftOut }: Session, what: string, orElse: string): CommandError {
  if (leftOut.isEmpty) return new CommandError(orElse, exitCodes.usage);
  const message = `${what}: permissions are missing; needed: ${leftOut.take().join(", ")} (berth manifests prints the roles)`;
  return new CommandError(message, exitCodes.cluster);
}

/** The rules that the user passes in files. */
export interface RuleFiles {
  readonly settings: Documents;
  readonly options: LabelOptions;
  readonly folder: ParsedFolder | undefined;
  /** Faults of the rule folder. */
  readonly faults: readonly Fault[];
  /** True when there are configuration files, even without a rule. */
  readonly hasConfig: boolean;
  /** Of the process: proxies, and what credential plugins get. */
  readonly environment: Environment;
}

/**
 * Reads the files that the user passes to a command.
 * @throws CommandError when the configuration cannot be used, or its label folder cannot be read.
 */
export async function readRuleFiles(
  options: RuleOptions,
  { folder, environment }: Pick<CommandDeps, "folder" | "environment">,
): Promise<RuleFiles> {
  const settings = await loadSettings(options, folder);
  const common = {
    settings,
    options: labelOptionsOfFlags(options),
    hasConfig: (options.config ?? []).length > 0,
    environment,
  };
  const source = settings.specOf(labelFolderKind);
  if (source === undefined) return { ...common, folder: undefined, faults: [] };
  const { parsed, faults, read } = await readLabelFolder(source);
  if (!read && hasErrors(faults)) {
    throw new CommandError(
      faults.map(({ file, message }) => `${file}: ${message}`).join("; "),
      exitCodes.faults,
    );
  }
  return { ...common, folder: parsed, faults };
}

/**
 * All Nodes, with the fields that capabilities read. None until the informers have settled.
 * @throws ApiError, from the result, when the server refuses to list them.
 */
export function listNodes(
  { informers, leftOut, log }: Session,
  owned: AsyncDisposableStack,
): () => Iterable<Node> {
  const shared = informers.informer({ name: "nodes", resource: nodes, project: nodeProjection(), log });
  const stop = new AbortController();
  const running = shared.informer.start(stop.signal);
  owned.defer(async () => {
    stop.abort();
    await (await running).ended;
  });
  return () => {
    if (shared.refused !== undefined) {
      leftOut.drop(shared.refused);
      throw shared.refused;
    }
    return shared.informer.list();
  };
}

/** Reads Nodes one page at a time, so that a large cluster is never in memory as a whole. */
export async function* readNodes(
  { client, stderr, clock, signal }: Session,
  project?: Projection<Node>,
): AsyncGenerator<Node> {
  using progress = new Progress(stderr, clock, `reading nodes from ${client.server}`);
  let count = 0;
  for await (const page of client.pages(nodes, { signal, ...(project && { project }) })) {
    count += page.items.length;
    progress.update(`reading nodes from ${client.server}: ${count}`);
    yield* page.items;
  }
}

export const readNode = (session: Session, name: string): Promise<Node> => readOne(nodes, { name }, session);

/** @throws CommandError when no object has this name. */
export async function readOne<T extends KubeObject>(
  resource: Resource<T>,
  of: { readonly namespace?: string; readonly name: string },
  { client, signal }: Session,
): Promise<T> {
  try {
    return await client.get(resource, of, { signal });
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    throw noSuchObject(resource, of, client.server);
  }
}

function noSuchObject(
  { kind }: Pick<Resource, "kind">,
  { namespace, name }: { readonly namespace?: string; readonly name: string },
  server: string,
): CommandError {
  const shown = namespace === undefined ? name : `${namespace}/${name}`;
  return new CommandError(`there is no ${kind.toLowerCase()} ${shown} on ${server}`);
}

/** What `explain` shows of one kind. */
export interface Explained<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly project: Projection<T>;
}

export function explainedNodes(): Explained<Node> {
  return { resource: nodes, project: nodeProjection(["metadata.managedFields"]) };
}

/** @throws CommandError when no object has this name. */
export async function readExplained<T extends KubeObject>(
  explained: Explained<T>,
  of: { readonly namespace?: string; readonly name: string },
  session: Session,
): Promise<T> {
  const { resource, project } = explained;
  if (session.isSnapshot !== true) return project(await readOne(resource, of, session));
  const { namespace, name } = of;
  const scope = { fieldSelector: `metadata.name=${name}`, ...(namespace !== undefined && { namespace }) };
  const [found] = (await readAllExplained(explained, session, scope)) ?? [];
  if (found === undefined) throw noSuchObject(explained.resource, of, session.client.server);
  return found;
}

/** For a snapshot, which answers about any of them. */
export function readAllExplained<T extends KubeObject>(
  explained: Explained<T>,
  session: Session,
  scope: CollectionScope = {},
): Promise<readonly T[] | undefined> {
  return readObjects({ name: "explained", ...explained, scope }, session);
}

/** Number of tries on an object that other clients keep changing. */
const MAX_TRIES = 5;

/**
 * Patches an object as the command read it. If it changed meanwhile, reads it again and retries. The patch names the
 * object version. Rejects with the last `ApiError`.
 *
 * @returns whether it was written: not when it is gone, or when there is nothing left to patch.
 */
export async function patchAsRead<T extends KubeObject>(
  resource: Resource<T>,
  first: T,
  patchOf: (object: T) => Patch | undefined,
  { client, signal }: Pick<Session, "client" | "signal">,
): Promise<boolean> {
  const { name = "", namespace } = first.metadata ?? {};
  const of = { name, ...(namespace !== undefined && { namespace }) };
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted();
    try {
      const patch = patchOf(tries === 1 ? first : await client.get(resource, of, { signal }));
      if (patch === undefined) return false;
      await client.patch(resource, of, patch, { signal });
      return true;
    } catch (error) {
      if (isApiError(error, "notFound")) return false;
      // When a `test` fails, the server answers `invalid`.
      if (!isApiError(error, "invalid", "conflict", "uidMismatch") || tries === MAX_TRIES) throw error;
    }
  }
}
