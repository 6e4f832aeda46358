import type { Finding } from "../capability.ts";
import type { Change } from "../change.ts";
import type { NodePlan, StayingMark } from "../plan.ts";

/** The changes of a plan to one node, without the node itself. `plan` prints it as text or JSON. */
export interface NodeDiff {
  readonly node: string;
  readonly changes: readonly Omit<Change, "entry">[];
  readonly stays: readonly StayingMark[];
  readonly findings: readonly Finding[];
}

/** A plan over many nodes. It lists only nodes with changes, staying marks or findings, in order of name. */
export interface PlanDiff {
  readonly nodes: readonly NodeDiff[];
  /** The number of nodes planned, and the number of nodes that Berth would write. */
  readonly looked: number;
  readonly written: number;
  /** Changes by action, over all nodes. */
  readonly totals: Readonly<Record<Change["action"], number>>;
}

export function toPlanDiff(plans: Iterable<NodePlan>): PlanDiff {
  const nodes: NodeDiff[] = [];
  const totals = { add: 0, overwrite: 0, remove: 0, adopt: 0, record: 0 };
  let looked = 0;
  let written = 0;
  for (const plan of plans) {
    looked += 1;
    if (plan.patch !== undefined) written += 1;
    const { stays, findings } = plan;
    const changes = plan.changes.map((change) => {
      const { entry: _entry, ...rest } = change;
      totals[rest.action] += 1;
      return rest;
    });
    if (changes.length + stays.length + findings.length === 0) continue;
    nodes.push({ node: plan.node.metadata?.name ?? "", changes, stays, findings });
  }
  nodes.sort((a, b) => (a.node < b.node ? -1 : 1));
  return { nodes, looked, written, totals };
}
