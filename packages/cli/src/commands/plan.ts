import type { Node } from "@berth/kube";
import {
  type MarkId,
  mergeContributions,
  type NodePlan,
  ownedMarks,
  type PlanDiff,
  planNode,
  recordOf,
  toPlanDiff,
} from "@berth/placement";
import { formatFault } from "../config/fault.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatPlan } from "../output/plan.ts";
import { styleFor } from "../output/style.ts";
import { openSession, type ReadRules, readNodes, readRules, type Session } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

export interface PlanOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly nodes: readonly string[];
  readonly exitCode?: boolean;
  readonly output?: DataFormat;
}

/** Shows what `run` would write, and writes nothing. */
export async function plan(options: PlanOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { stdout, stderr } = surroundings;
  const rules = await readRules(options, surroundings);
  if (!rules.given) {
    throw new CommandError("there is nothing to plan from: give --label-dir or --config", exitCodes.usage);
  }
  await using session = await openSession(options, surroundings);
  const diff = await planNodes(session, rules, { options, surroundings });
  if (options.output) printData(stdout, { ...diff, faults: rules.faults }, options.output);
  else {
    for (const fault of rules.faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(formatPlan(diff, styleFor(stdout)));
  }
  return options.exitCode && diff.written > 0 ? exitCodes.changes : exitCodes.done;
}

interface Work {
  readonly options: PlanOptions;
  readonly surroundings: Surroundings;
}

async function planNodes(
  session: Session,
  rules: ReadRules,
  { options, surroundings }: Work,
): Promise<PlanDiff> {
  const { installation } = options;
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
  return { ...diff, nodes };
}

function planOne(
  node: Node,
  capabilities: ReadRules["capabilities"],
  { installation, now }: { readonly installation: string; readonly now: number },
): { readonly plan: NodePlan; readonly inputs: ReadonlyMap<MarkId, readonly string[]> } {
  const view = { node, owned: ownedMarks(recordOf(node), installation) };
  const merged = mergeContributions(capabilities.map((capability) => capability.contribute(view, now)));
  const planned = planNode({ node, merged, installation, now, listUnrecorded: true });
  const inputs = new Map<MarkId, readonly string[]>();
  for (const { id } of planned.changes) {
    const wanted = merged.wanted.get(id);
    const owner = capabilities.find(({ name }) => name === wanted?.capability);
    if (wanted !== undefined && owner !== undefined) inputs.set(id, owner.inputs(view, wanted.mark));
  }
  return { plan: planned, inputs };
}
