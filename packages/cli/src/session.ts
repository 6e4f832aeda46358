import { type Fault, hasErrors } from "@berth/host";
import {
  connect,
  isApiError,
  type KubeClient,
  type KubeObject,
  type Node,
  nodes,
  type Projection,
  type Resource,
} from "@berth/kube";
import {
  assembleRules,
  type BoundCapability,
  bindCapability,
  type LabelOptions,
  type LabelRules,
  labelRules,
  labels,
  type ParsedFolder,
  ruleName,
} from "@berth/placement";
import { readLabelFolder } from "./config/label-folder.ts";
import { labelOptionsOfFlags, loadSettings, type RuleOptions, type Settings } from "./config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import {
  type ClusterRules,
  clusterFaults,
  configFaults,
  readClusterRules,
  ruleSources,
} from "./label-rules.ts";
import { LeftOut } from "./left-out.ts";
import { listObjects } from "./listing.ts";
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
  readonly settings: Settings;
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
  if (settings.labelFolder === undefined) return { ...common, folder: undefined, faults: [] };
  const { parsed, faults, read } = await readLabelFolder(settings.labelFolder);
  if (!read && hasErrors(faults)) {
    throw new CommandError(
      faults.map(({ file, message }) => `${file}: ${message}`).join("; "),
      exitCodes.faults,
    );
  }
  return { ...common, folder: parsed, faults };
}

/** The capabilities with their configuration as a command reads it, once. */
export interface ReadRules {
  /** The derived labels. */
  readonly capabilities: readonly [BoundCapability];
  /** What is wrong with single rules; the others are in force. */
  readonly faults: readonly Fault[];
  /** There is a source of rules. */
  readonly given: boolean;
}

/**
 * Rules of files and of the cluster together.
 *
 * @param waiting what to do with rules that ask before they act: `act` to see what they would do, `wait` to leave out
 *   those that are known to wait.
 */
export function assembleReadRules(
  files: RuleFiles,
  cluster: ClusterRules | undefined,
  waiting: "act" | "wait",
): ReadRules {
  const { settings, options, folder, hasConfig } = files;
  const config = hasConfig ? settings.labelRules : undefined;
  const sources = ruleSources({ folder, config, cluster, options });
  if (sources === undefined)
    return { capabilities: [bindRules(undefined)], faults: files.faults, given: false };
  const known = new Set([...(cluster?.waiting ?? [])].map((name) => ruleName("cluster", name)));
  const assembled = assembleRules({
    sources,
    nodes: [],
    ...(waiting === "wait" && { known }),
  });
  const faults = [
    ...files.faults,
    ...configFaults(settings.labelRules, assembled),
    ...clusterFaults(cluster, assembled),
  ];
  return { capabilities: [bindRules(assembled.rules)], faults, given: true };
}

/**
 * The `LabelRule` objects of the cluster; `undefined` when it does not have the CRD, or they may not be read, which the
 * session notes.
 */
export async function fetchClusterRules(
  session: Session,
  surroundings: Pick<Surroundings, "stderr" | "signal">,
): Promise<ClusterRules | undefined> {
  const found = await fetchDocuments(labelRules, session, surroundings);
  return found && readClusterRules(found);
}

/** All objects of a kind of ours; `undefined` as for `fetchClusterRules`. */
export function fetchDocuments<T extends KubeObject>(
  resource: Resource<T>,
  session: Session,
  surroundings: Pick<Surroundings, "stderr" | "signal">,
): Promise<readonly T[] | undefined> {
  return listObjects({ resource }, { session, surroundings });
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

function bindRules(rules: LabelRules | undefined): BoundCapability {
  return bindCapability(labels, { config: () => rules, observe: (view) => view });
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
