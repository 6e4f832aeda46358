import {
  createListedInformers,
  type Documents,
  type Fault,
  hasErrors,
  LeftOut,
  type OneShotRun,
  Progress,
  pluralOf,
} from "@berth/host";
import {
  connect,
  isApiError,
  type KubeObject,
  type Node,
  nodes,
  type Patch,
  type Projection,
  type Resource,
} from "@berth/kube";
import { type LabelOptions, labelFolderKind, type ParsedFolder, readLabelFolder } from "@berth/placement";
import { clusterName, createSilentLogger } from "@berth/runtime";
import { nodeProjection } from "./capabilities.ts";
import type { CommandDeps } from "./command-deps.ts";
import { labelOptionsOfFlags, loadSettings, type RuleOptions } from "./config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { findStateNamespace, type StateNamespace } from "./state-namespace.ts";
import { VERSION } from "./version.ts";

/** A connection for one command. At its end it reports what it could not read. */
export interface Session extends OneShotRun, AsyncDisposable {
  readonly choice: ClusterChoice;
  /** The namespace of Berth's own state, whether it exists or not. */
  stateNamespace(): Promise<StateNamespace>;
}

export interface SessionOptions extends ConnectionOptions {
  /** Default `berth`. */
  readonly installation?: string;
  /** Namespace of Berth's own state. Default: that of the pod, else `berth-system`. */
  readonly namespace?: string;
}

/** Chooses the cluster and creates a client. Sends no request yet. */
export async function openSession(options: SessionOptions, deps: CommandDeps): Promise<Session> {
  const cluster = await chooseCluster(options, deps);
  const { clock, signal, stderr } = deps;
  const client = connect({ ...cluster.connect, userAgent: `berth/${VERSION}` });
  const leftOut = new LeftOut();
  let found: Promise<StateNamespace> | undefined;
  const stateNamespace = (): Promise<StateNamespace> =>
    (found ??= findStateNamespace(client, { wanted: options.namespace, cluster, signal }));
  const local = clusterName("local");
  return {
    client,
    cluster: local,
    choice: cluster,
    informers: createListedInformers({
      client,
      cluster: local,
      clock,
      onRefused({ resource, consequence }, error) {
        // Without a consequence the command cannot go on, and says so itself.
        if (consequence !== undefined) leftOut.note(pluralOf(resource), error, consequence);
      },
    }),
    log: createSilentLogger(),
    clock,
    signal,
    stderr,
    leftOut,
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
}

/**
 * Reads the files that the user passes to a command.
 * @throws CommandError when the configuration cannot be used, or its label folder cannot be read.
 */
export async function readRuleFiles(
  options: RuleOptions,
  { folder }: Pick<CommandDeps, "folder">,
): Promise<RuleFiles> {
  const settings = await loadSettings(options, folder);
  const common = {
    settings,
    options: labelOptionsOfFlags(options),
    hasConfig: (options.config ?? []).length > 0,
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
export function listNodes({ informers, log }: Session, owned: AsyncDisposableStack): () => Iterable<Node> {
  const shared = informers.informer({ resource: nodes, project: nodeProjection(), log });
  const stop = new AbortController();
  const running = shared.informer.start(stop.signal);
  owned.defer(async () => {
    stop.abort();
    await (await running).ended;
  });
  return () => {
    if (shared.refused !== undefined) throw shared.refused;
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
    const name = of.namespace === undefined ? of.name : `${of.namespace}/${of.name}`;
    throw new CommandError(`there is no ${resource.kind.toLowerCase()} ${name} on ${client.server}`);
  }
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
