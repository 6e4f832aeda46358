import { connect, type KubeClient, type Node, nodes, type Projection } from "@berth/kube";
import { type BoundCapability, bindCapability, type LabelRules, labels } from "@berth/placement";
import { type Fault, hasErrors } from "./config/fault.ts";
import { readLabelFolder } from "./config/label-folder.ts";
import { loadSettings, type RuleOptions } from "./config/settings.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { Progress } from "./output/progress.ts";
import type { Surroundings } from "./surroundings.ts";
import { VERSION } from "./version.ts";

/** A connection for one command. */
export interface Session extends AsyncDisposable {
  readonly client: KubeClient;
  readonly cluster: ClusterChoice;
}

/** Chooses the cluster and connects; nothing is sent yet. */
export async function openSession(options: ConnectionOptions, surroundings: Surroundings): Promise<Session> {
  const cluster = await chooseCluster(options, surroundings);
  const client = connect({ ...cluster.connect, userAgent: `berth/${VERSION}` });
  return { client, cluster, [Symbol.asyncDispose]: () => client.close() };
}

/** The capabilities with their configuration as a command reads it, once. */
export interface ReadRules {
  readonly capabilities: readonly BoundCapability[];
  /** What is wrong with single rules; the others are in force. */
  readonly faults: readonly Fault[];
  /** There is a label folder. */
  readonly given: boolean;
}

/**
 * Reads the rules that a command is given.
 * @throws CommandError when the configuration cannot be used, or its label folder cannot be read.
 */
export async function readRules(
  options: RuleOptions,
  { folder }: Pick<Surroundings, "folder">,
): Promise<ReadRules> {
  const { labelFolder } = await loadSettings(options, folder);
  if (labelFolder === undefined) return { capabilities: [bindLabels(undefined)], faults: [], given: false };
  const { parsed, faults, read } = await readLabelFolder(labelFolder);
  if (!read && hasErrors(faults)) {
    throw new CommandError(
      faults.map(({ file, message }) => `${file}: ${message}`).join("; "),
      exitCodes.faults,
    );
  }
  return { capabilities: [bindLabels(parsed.rules)], faults, given: true };
}

function bindLabels(rules: LabelRules | undefined): BoundCapability {
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
