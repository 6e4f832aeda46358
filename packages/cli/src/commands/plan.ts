import type { Node } from "@berth/kube";
import {
  type MarkId,
  mergeContributions,
  type NodePlan,
  ownedMarks,
  type PlanDiff,
  type Policy,
  planNode,
  RemovalForecast,
  type RuleForecast,
  recordOf,
  toPlanDiff,
} from "@berth/placement";
import { formatFault } from "../config/fault.ts";
import { loadSettings, type RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import type { ClusterRules } from "../label-rules.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatPlan } from "../output/plan.ts";
import { styleFor } from "../output/style.ts";
import { confirmRule, ruleNotes, rulesByName } from "../rule-confirmation.ts";
import {
  assembleReadRules,
  fetchClusterRules,
  openSession,
  type ReadRules,
  readNodes,
  readRuleFiles,
  type Session,
} from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

export interface PlanOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly nodes: readonly string[];
  readonly exitCode?: boolean;
  /** Lets this rule act, as it stands. */
  readonly confirm?: string;
  /** Files of LabelRules that stand in for those of the same name in the cluster. */
  readonly try?: readonly string[];
  readonly output?: DataFormat;
}

/** Shows what `run` would write, and writes nothing. */
export async function plan(options: PlanOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr } = surroundings;
  const files = await readRuleFiles(options, surroundings);
  await using session = await openSession(options, surroundings);
  const cluster = await tryOut(options.try, await fetchClusterRules(session, surroundings), surroundings);
  const rules = assembleReadRules(files, cluster, "act");
  if (!rules.given) {
    throw new CommandError(
      "there is nothing to plan from: give --label-dir or --config, or install the CRDs (`berth manifests crds`)",
      exitCodes.usage,
    );
  }
  const { diff, forecasts } = await planNodes(session, rules, { options, surroundings });
  // Of a few nodes nothing can be said about a share of all.
  const notes =
    options.nodes.length > 0
      ? []
      : ruleNotes(forecasts, rulesByName(files, cluster), {
          nodes: diff.looked,
          now: surroundings.clock.now(),
        });
  if (options.output)
    printData(stdout, { ...diff, rules: forecasts, notes, faults: rules.faults }, options.output);
  else {
    for (const fault of rules.faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(formatPlan(diff, styleFor(stdout)));
    for (const note of notes) stdout.write(`${note}\n`);
  }
  if (options.confirm !== undefined)
    await confirmRule(options.confirm, { session, files, cluster, surroundings });
  return options.exitCode && diff.written > 0 ? exitCodes.changes : exitCodes.done;
}

/** The rules of the cluster as they would be once these files were applied. */
async function tryOut(
  files: PlanOptions["try"],
  cluster: ClusterRules | undefined,
  { folder }: Surroundings,
): Promise<ClusterRules | undefined> {
  if (files === undefined) return cluster;
  const { labelRules } = await loadSettings({ config: files }, folder);
  const tried = new Set(labelRules.map(({ name }) => name));
  const isLeft = ({ name }: { readonly name: string }): boolean => !tried.has(name);
  return {
    ...(cluster ?? { waiting: new Set(), inForce: new Set(), versions: new Map() }),
    documents: [...(cluster?.documents ?? []).filter(isLeft), ...labelRules],
    unreadable: (cluster?.unreadable ?? []).filter(isLeft),
  };
}

interface Work {
  readonly options: PlanOptions;
  readonly surroundings: Surroundings;
}

async function planNodes(
  session: Session,
  rules: ReadRules,
  { options, surroundings }: Work,
): Promise<{ readonly diff: PlanDiff; readonly forecasts: readonly RuleForecast[] }> {
  const { installation } = options;
  const forecast = new RemovalForecast();
  const missing = new Set(options.nodes);
  const plans: NodePlan[] = [];
  /** By node and mark: what made a change wanted. */
  const inputs = new Map<string, readonly string[]>();
  for await (const node of readNodes(session, surroundings)) {
    const { name = "" } = node.metadata ?? {};
    if (options.nodes.length > 0 && !options.nodes.includes(name)) continue;
    missing.delete(name);
    const planned = planOne(node, rules.capabilities, { installation, now: surroundings.clock.now() });
    for (const [id, found] of planned.inputs) inputs.set(`${name} ${id}`, found);
    forecast.add(planned.plan, planned.policies);
    // Only the name is shown: thousands of whole nodes are not kept for it.
    plans.push({ ...planned.plan, node: { metadata: { name } } });
  }
  if (missing.size > 0) throw new CommandError(`there is no node ${[...missing].join(", ")}`);
  const diff = toPlanDiff(plans);
  const nodes = diff.nodes.map((one) => {
    const changes = one.changes.map((change) => {
      const found = inputs.get(`${one.node} ${change.id}`);
      return found === undefined ? change : Object.assign(change, { inputs: found });
    });
    return Object.assign(one, { changes });
  });
  return { diff: { ...diff, nodes }, forecasts: forecast.rules() };
}

interface Planned {
  readonly plan: NodePlan;
  readonly inputs: ReadonlyMap<MarkId, readonly string[]>;
  readonly policies: ReadonlyMap<string, Policy>;
}

function planOne(
  node: Node,
  capabilities: ReadRules["capabilities"],
  { installation, now }: { readonly installation: string; readonly now: number },
): Planned {
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const merged = mergeContributions(capabilities.map((capability) => capability.contribute(view, now)));
  const planned = planNode({ node, merged, installation, now, listUnrecorded: true });
  const inputs = new Map<MarkId, readonly string[]>();
  for (const { id } of planned.changes) {
    const wanted = merged.wanted.get(id);
    const owner = capabilities.find(({ name }) => name === wanted?.capability);
    if (wanted !== undefined && owner !== undefined) inputs.set(id, owner.inputs(view, wanted.mark));
  }
  return { plan: planned, inputs, policies: merged.policies };
}
