import { type Documents, type Fault, hasErrors } from "@berth/host";
import { connect, isApiError, type KubeClient, type Node, nodes, type Projection } from "@berth/kube";
import { type LabelOptions, labelFolderKind, type ParsedFolder, readLabelFolder } from "@berth/placement";
import { labelOptionsOfFlags, loadSettings, type RuleOptions } from "./config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { LeftOut } from "./left-out.ts";
import { Progress } from "./output/progress.ts";
import type { Surroundings } from "./surroundings.ts";
import { VERSION } from "./version.ts";

/** A connection for one command. */
export interface Session extends AsyncDisposable {
  readonly client: KubeClient;
  readonly cluster: ClusterChoice;
  /** Told on standard error when the session ends. */
  readonly leftOut: LeftOut;
}

/** Chooses the cluster and connects; nothing is sent yet. */
export async function openSession(options: ConnectionOptions, surroundings: Surroundings): Promise<Session> {
  const cluster = await chooseCluster(options, surroundings);
  const client = connect({ ...cluster.connect, userAgent: `berth/${VERSION}` });
  const leftOut = new LeftOut();
  return {
    client,
    cluster,
    leftOut,
    async [Symbol.asyncDispose]() {
      leftOut.tell(surroundings.stderr);
      await client.close();
    },
  };
}

/** The rules that a command is given in files. */
export interface RuleFiles {
  readonly settings: Documents;
  readonly options: LabelOptions;
  readonly folder: ParsedFolder | undefined;
  /** Faults of the rule folder. */
  readonly faults: readonly Fault[];
  /** There are configuration files, which may hold no rule. */
  readonly hasConfig: boolean;
}

/**
 * Reads the files that a command is given.
 * @throws CommandError when the configuration cannot be used, or its label folder cannot be read.
 */
export async function readRuleFiles(
  options: RuleOptions,
  { folder }: Pick<Surroundings, "folder">,
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

/** `undefined` without the permission to read them, which the session notes: what depends on it is unknown. */
export async function unlessForbidden<T>(
  what: string,
  { leftOut }: Pick<Session, "leftOut">,
  read: () => Promise<T>,
  consequence = "what depends on them is unknown",
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isApiError(error, "forbidden")) throw error;
    leftOut.note(what, error, consequence);
    return undefined;
  }
}

/** Reads Nodes one page at a time, so that a large cluster is never held as a whole. */
export async function* readNodes(
  { client }: Session,
  { stderr, clock, signal }: Surroundings,
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

/** @throws CommandError when there is none of this name. */
export async function readNode({ client }: Session, name: string, signal: AbortSignal): Promise<Node> {
  try {
    return await client.get(nodes, { name }, { signal });
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    throw new CommandError(`there is no node ${name} on ${client.server}`);
  }
}
