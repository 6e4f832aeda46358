/** `berth node-template`: what the templates of nodes need for the documents in force. */
import { formatColumns, listObjects } from "@berth/host";
import type { Node } from "@berth/kube";
import {
  factsOf,
  type Gates,
  gatesOfNewNodes,
  nodePools,
  ownedMarks,
  parseMarkId,
  recordOf,
  type TemplateKind,
  nodeTemplate as templateOf,
  unexpectedGates,
} from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { toYaml } from "../output/data.ts";
import { readCapabilities } from "../read-capabilities.ts";
import { openSession, type RuleFiles, readNode, readRuleFiles, type Session } from "../session.ts";
import { readGates } from "./gate.ts";

export interface NodeTemplateOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly for?: TemplateKind;
  /** Name of a node. Default: gates of all nodes, and no labels. */
  readonly like?: string;
  readonly check?: boolean;
}

export async function nodeTemplate(options: NodeTemplateOptions, deps: CommandDeps): Promise<ExitCode> {
  const { for: kind, like, check = false } = options;
  if (check === (kind !== undefined)) throw new CommandError("give either --for or --check", exitCodes.usage);
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  const gates = await readGates(files, session);
  if (kind === undefined) return await checkPools(gates, session, deps);
  const node = like === undefined ? undefined : await readNode(session, like);
  const labels = node === undefined ? {} : await derivedLabels(node, files, session);
  const parts = templateOf(kind, { gates: gatesOfNewNodes(gates, node) }, labels);
  if (parts.length === 0) deps.stderr.write("Templates of nodes need nothing.\n");
  const text = parts.map(({ comments, document }) => {
    const lines = comments.map((line) => `# ${line}\n`).join("");
    return `${lines}${document === undefined ? "" : toYaml(document)}`;
  });
  deps.stdout.write(text.join("---\n"));
  return exitCodes.done;
}

/** The labels that rules want on the node, whether it has them or not. */
async function derivedLabels(
  node: Node,
  files: RuleFiles,
  session: Session,
): Promise<Readonly<Record<string, string>>> {
  const { installation, clock } = session;
  const read = await readCapabilities({ files, session, waiting: "wait" }, "facts");
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const marks = factsOf(read).flatMap(
    ({ capability }) => capability.contribute(view, clock.now()).decision.marks,
  );
  const labels = marks.flatMap(({ id, value }) => {
    const place = parseMarkId(id);
    return place?.kind === "label" ? [[place.key, value] as const] : [];
  });
  return Object.fromEntries(labels.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function checkPools(gates: Gates, session: Session, { stdout }: CommandDeps): Promise<ExitCode> {
  const pools = await listObjects({ resource: nodePools }, session);
  if (pools === undefined)
    throw new CommandError(
      "NodePools (nodepools.karpenter.sh) cannot be read: the cluster does not have them, or you lack the permission to list them",
    );
  const rows = pools.flatMap((pool) =>
    unexpectedGates(pool, gates).map(({ rule, spec: { taint } }) => [
      pool.metadata?.name ?? "",
      rule,
      `${taint.key}=${taint.value}:${taint.effect}`,
    ]),
  );
  if (rows.length === 0) {
    stdout.write(`All of ${pools.length} NodePools expect the taints of their gates.\n`);
    return exitCodes.done;
  }
  stdout.write(formatColumns([["NODEPOOL", "GATE", "LACKS STARTUP TAINT"], ...rows]));
  return exitCodes.needsPerson;
}
