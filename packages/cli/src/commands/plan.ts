import { counted, formatFault, type Style, styleFor } from "@berth/host";
import type { Node } from "@berth/kube";
import {
  type Contribution,
  factsOf,
  type MarkId,
  mergeContributions,
  type NodePlan,
  ownedMarks,
  type PlannedNodes,
  type PlanningCapability,
  type PlanSection,
  planNode,
  RemovalForecast,
  readDeclaredPlaces,
  recordOf,
  toPlanDiff,
} from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import { loadSettings, type RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatPlan } from "../output/plan.ts";
import { type NamedCapability, readCapabilities } from "../read-capabilities.ts";
import {
  listNodes,
  nothingToGoBy,
  openSession,
  type RuleFiles,
  readRuleFiles,
  type Session,
} from "../session.ts";

export interface PlanOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly namespace?: string;
  readonly nodes: readonly string[];
  readonly exitCode?: boolean;
  /** Files with documents that replace those of the same kind and name in the cluster. */
  readonly try?: readonly string[];
  readonly from?: string;
  /** Codes of warnings that are not shown. */
  readonly silence?: readonly string[];
  readonly output?: DataFormat;
}

/** Shows the writes of `run` without making them. */
export async function plan(options: PlanOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr } = deps;
  await using session = await openSession(options, deps);
  await using owned = new AsyncDisposableStack();
  const { planned, read, sections } = await planAll(options, { session, owned, deps });
  const { diff, rules } = planned;
  const notes = sections.flatMap((it) => it.notes ?? []);
  const faults = read.flatMap((it) => it.faults);
  const stops = read.flatMap((it) => it.stops);
  const warnings = sections
    .flatMap((it) => it.warnings ?? [])
    .filter(({ code }) => !options.silence?.includes(code));
  if (options.output) {
    const data = Object.fromEntries(sections.flatMap((it) => Object.entries(it.data)));
    printData(stdout, { ...diff, rules, notes, ...data, warnings, stops, faults }, options.output);
  } else {
    for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(planText({ planned, sections }, styleFor(stdout), true));
    if (warnings.length > 0) stdout.write("\n");
    for (const { code, message } of warnings) stdout.write(`${message} (${code}).\n`);
    if (stops.length > 0)
      stdout.write(`${counted(stops.length, "document")} would cease to be in force: ${stops.join(", ")}\n`);
  }
  if (read.some(({ refused }) => refused.length > 0)) return exitCodes.faults;
  const isChanging = diff.written + stops.length > 0 || sections.some((it) => it.isChanging);
  return options.exitCode && isChanging ? exitCodes.changes : exitCodes.done;
}

/** The changes of nodes, and what capabilities add. @param advice whether with what a user should set or check. */
export function planText(
  { planned, sections }: Pick<Planning, "planned" | "sections">,
  style: Style,
  advice: boolean,
): string {
  const notes = sections.flatMap((it) => it.notes ?? []).map((note) => `${note}\n`);
  const blocks = sections
    .flatMap((it) => [...it.blocks(style), ...(advice ? (it.advice ?? []) : [])])
    .map((block) => `\n${block}`);
  return [formatPlan(planned.diff, style), ...notes, ...blocks].join("");
}

export interface Planning {
  readonly planned: PlannedNodes;
  readonly read: readonly NamedCapability[];
  readonly sections: readonly PlanSection[];
}

/** Reads and plans all. @throws CommandError when there is nothing to plan from. */
export async function planAll(
  options: PlanOptions,
  {
    session,
    owned,
    deps,
    files,
  }: {
    readonly session: Session;
    readonly owned: AsyncDisposableStack;
    readonly deps: CommandDeps;
    /** Default: those of the options. */
    readonly files?: RuleFiles | undefined;
  },
): Promise<Planning> {
  const given = files ?? (await readRuleFiles(options, deps));
  const tried = options.try && (await loadSettings({ config: options.try }, deps.folder));
  const read = await readCapabilities({ files: given, session, tried, waiting: "act" }, "nodes");
  if (!read.some(({ isGiven }) => isGiven)) {
    const what = "there is nothing to plan from";
    const hint = "give --label-dir or --config, or install the CRDs (`berth manifests crds`)";
    throw nothingToGoBy(session, what, `${what}: ${hint}`);
  }
  const [only, ...more] = options.nodes;
  const scope = only !== undefined && more.length === 0 ? { only } : {};
  const nodes = listNodes(session, owned);
  const at = { run: session, owned, facts: factsOf(read), nodes, ...scope };
  // At the same time: what several of them read is then listed once.
  const capabilities = await Promise.all(read.flatMap((one) => one.plan?.(at) ?? []));
  const declared = await readDeclaredPlaces(session);
  await session.informers.settled();
  const planned = await planNodes(options.nodes, { capabilities, declared, session, nodes: nodes() });
  const sections = capabilities.flatMap(({ section }) => section?.(planned) ?? []);
  return { planned, read, sections };
}

interface Deciding {
  readonly capabilities: readonly PlanningCapability[];
  readonly declared: ReadonlySet<MarkId>;
  readonly session: Session;
  readonly nodes: Iterable<Node>;
}

/** @param wanted names of nodes. Empty: all nodes. */
async function planNodes(wanted: readonly string[], { nodes, ...deciding }: Deciding): Promise<PlannedNodes> {
  const { capabilities, session } = deciding;
  const forecast = new RemovalForecast();
  const missing = new Set(wanted);
  const plans: NodePlan[] = [];
  for (const node of nodes) {
    const { name = "" } = node.metadata ?? {};
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    missing.delete(name);
    // Listing the pods of each node would be too much load in a large cluster.
    if (wanted.length > 0) for (const { lookUp } of capabilities) await lookUp?.(node);
    const planned = planOne(node, deciding);
    forecast.add(planned.plan, planned.policies);
    for (const [at, { add }] of capabilities.entries()) {
      const contribution = planned.contributions[at];
      if (contribution !== undefined) add?.(planned.plan, contribution);
    }
    // Only the name is shown, so the command does not keep thousands of whole nodes in memory.
    plans.push({ ...planned.plan, node: { metadata: { name } } });
  }
  if (missing.size > 0) throw new CommandError(`there is no node ${[...missing].join(", ")}`);
  return {
    diff: toPlanDiff(plans),
    rules: forecast.rules(),
    isWhole: wanted.length === 0,
    now: session.clock.now(),
  };
}

interface Planned extends Pick<ReturnType<typeof mergeContributions>, "policies"> {
  /** Each change, with the inputs from the node that caused it. */
  readonly plan: NodePlan;
  /** In the order of the capabilities. */
  readonly contributions: readonly Contribution[];
}

function planOne(node: Node, { capabilities, declared, session }: Omit<Deciding, "nodes">): Planned {
  const { installation, clock } = session;
  const now = clock.now();
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const contributions = capabilities.map(({ capability }) => capability.contribute(view, now));
  const merged = mergeContributions(contributions);
  const planned = planNode({ node, merged, installation, now, declared, listUnrecorded: true });
  const changes = planned.changes.map((change) => {
    const wanted = merged.wanted.get(change.id);
    const owner = capabilities.find(({ capability }) => capability.name === wanted?.capability)?.capability;
    if (wanted === undefined || owner === undefined) return change;
    return Object.assign({}, change, { inputs: owner.inputs(view, wanted.mark) });
  });
  return { plan: { ...planned, changes }, policies: merged.policies, contributions };
}
