import type { Node } from "@berth/kube";
import {
  mergeContributions,
  type NodePlan,
  ownedMarks,
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
import { openSession, type ReadRules, readNodes, readRules } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

export interface PlanOptions extends ConnectionOptions, RuleOptions {
  readonly installation: string;
  readonly nodes: readonly string[];
  readonly exitCode: boolean;
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
  const wanted = new Set(options.nodes);
  const plans: NodePlan[] = [];
  for await (const node of readNodes(session, surroundings)) {
    const name = node.metadata?.name ?? "";
    if (wanted.size > 0 && !wanted.delete(name) && !options.nodes.includes(name)) continue;
    plans.push(withoutNode(planFor(node, rules, { options, now: surroundings.clock.now() })));
  }
  if (wanted.size > 0) throw new CommandError(`there is no node ${[...wanted].join(", ")}`);
  const diff = toPlanDiff(plans);
  if (options.output) printData(stdout, { ...diff, faults: rules.faults }, options.output);
  else {
    for (const fault of rules.faults) stderr.write(`${formatFault(fault)}\n`);
    stdout.write(formatPlan(diff, styleFor(stdout)));
  }
  return options.exitCode && diff.written > 0 ? exitCodes.changes : exitCodes.done;
}

function planFor(
  node: Node,
  { capabilities }: ReadRules,
  { options: { installation }, now }: { readonly options: PlanOptions; readonly now: number },
): NodePlan {
  const owned = ownedMarks(recordOf(node), installation);
  const contributions = capabilities.map((capability) => capability.contribute({ node, owned }, now));
  const merged = mergeContributions(contributions);
  return planNode({ node, merged, installation, now, listUnrecorded: true });
}

/** Only the name is shown: thousands of whole nodes are not kept for it. */
function withoutNode(plan: NodePlan): NodePlan {
  const name = plan.node.metadata?.name;
  return { ...plan, node: { metadata: name === undefined ? {} : { name } } };
}
