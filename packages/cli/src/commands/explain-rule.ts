import { formatFault, listObjects, styleFor } from "@berth/host";
import { type Node, nodes } from "@berth/kube";
import {
  type BoundCapability,
  factsOf,
  ownedMarks,
  type RuleTrace,
  recordOf,
  traceRules,
} from "@berth/placement";
import { nodeCapabilities } from "../capabilities.ts";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { printData } from "../output/data.ts";
import { formatSummary, formatTrace, RuleCount } from "../output/trace.ts";
import { type NamedCapability, readCapabilities } from "../read-capabilities.ts";
import {
  explainedNodes,
  listNodes,
  openSession,
  readExplained,
  readRuleFiles,
  type Session,
} from "../session.ts";
import type { ExplainOptions } from "./explain.ts";

export interface ExplainRuleOptions extends Omit<ExplainOptions, "name"> {
  /** Of the node. Absent with `summary`: all nodes. */
  readonly name?: string;
  /** A document, as `gpu` or `cluster/gpu`. */
  readonly document: string;
  /** How its kind ends: `Gate`. Default: any kind. */
  readonly kind?: string;
  readonly summary?: boolean;
  readonly selector?: string;
}

/** Explains why a document acts on a node or does not: each comparison of the decision itself. */
export async function explainRule(options: ExplainRuleOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  const { document: asked, kind = "" } = options;
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  await using owned = new AsyncDisposableStack();
  const all = await readCapabilities({ files, session, waiting: "wait" }, "nodes");
  const asks = nodeCapabilities.filter(({ kinds }) => kinds.some((it) => it.kind.endsWith(kind)));
  const names = new Set(asks.map(({ name }) => name));
  const read = all.filter(({ name }) => names.has(name));
  for (const fault of read.flatMap(({ faults }) => faults)) stderr.write(`${formatFault(fault)}\n`);
  const at = { session, owned, read, all };
  const traced = options.summary
    ? await traceAll(asked, options.selector, at)
    : await traceOne(asked, options.name, at);
  if (traced.every(({ rules }) => rules.length === 0))
    throw new CommandError(`no ${kind || "document"} ${asked} is in force: ${known(traced) || "none is"}`);
  const style = styleFor(stdout);
  if (options.summary) {
    const count = new RuleCount();
    for (const { node, rules } of traced) for (const rule of rules) count.add(node, rule);
    const summaries = count.summaries();
    if (options.output) printData(stdout, { summaries }, options.output);
    else stdout.write(summaries.map((it) => formatSummary(it, style)).join("\n"));
  } else {
    const { node, rules } = traced[0] ?? { node: "", rules: [] };
    if (options.output) printData(stdout, { node, rules }, options.output);
    else
      stdout.write(
        `${style.heading(`node ${node}`)}\n\n${rules.map((it) => formatTrace(it, style)).join("\n")}`,
      );
  }
  return exitCodes.done;
}

interface Traced {
  readonly node: string;
  readonly rules: readonly RuleTrace[];
  /** All rules in force. */
  readonly inForce: ReadonlySet<string>;
}

const known = (traced: readonly Traced[]): string => [...(traced[0]?.inForce ?? [])].slice(0, 20).join(", ");

interface At {
  readonly session: Session;
  readonly owned: AsyncDisposableStack;
  readonly read: readonly NamedCapability[];
  readonly all: readonly NamedCapability[];
}

async function traceOne(rule: string, name: string | undefined, at: At): Promise<readonly Traced[]> {
  if (name === undefined)
    throw new CommandError("name a node, or count all of them with --summary", exitCodes.usage);
  const { session: run, owned, read, all } = at;
  const node = await readExplained(explainedNodes(), { name }, run);
  const capabilities: BoundCapability[] = [];
  for (const one of read) {
    const found = await one.explain?.({ run, owned, facts: factsOf(all), only: name, node });
    await found?.lookUp?.(node);
    if (found !== undefined) capabilities.push(found.capability);
  }
  return [trace(rule, node, capabilities, run)];
}

async function traceAll(rule: string, selector: string | undefined, at: At): Promise<readonly Traced[]> {
  const { session: run, owned, read, all } = at;
  const listed = listNodes(run, owned);
  const look = { run, owned, facts: factsOf(all), nodes: listed };
  const seen = await Promise.all(read.flatMap((one) => one.plan?.(look) ?? []));
  await run.informers.settled();
  const capabilities = seen.map(({ capability }) => capability);
  const chosen = selector === undefined ? undefined : await namesOf(selector, run);
  return [...listed()]
    .filter(({ metadata: { name = "" } = {} }) => chosen?.has(name) ?? true)
    .map((node) => trace(rule, node, capabilities, run));
}

/** The API server reads the selector. */
async function namesOf(labelSelector: string, run: Session): Promise<ReadonlySet<string>> {
  const found = await listObjects({ resource: nodes, labelSelector, metadataOnly: true }, run);
  return new Set(found?.map(({ metadata }) => metadata?.name ?? ""));
}

function trace(
  rule: string,
  node: Node,
  capabilities: readonly BoundCapability[],
  { installation, clock }: Session,
): Traced {
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const now = clock.now();
  const policies = capabilities.map((it) => it.contribute(view, now).policy);
  return {
    node: node.metadata?.name ?? "",
    rules: traceRules(rule, view, capabilities, now),
    inForce: policies.reduce((rules, policy) => rules.union(policy.rules), new Set<string>()),
  };
}
