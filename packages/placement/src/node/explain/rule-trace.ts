/** Why a rule acts on a node, or does not: what its decision compared. */
import type { BoundCapability, Instant, NodeView } from "../capability.ts";
import type { MarkId } from "../mark.ts";
import { Trace } from "./trace.ts";

export interface RuleTrace {
  readonly capability: string;
  /** `cluster/gpu` */
  readonly rule: string;
  /** The marks that it wants on the node. */
  readonly marks: readonly MarkId[];
  /** As in `RuleOutcome`. */
  readonly phase?: string;
  readonly places: Trace["found"];
}

/** One for each rule in force of this name. @param name `gpu`, or `cluster/gpu`. */
export function traceRules(
  name: string,
  view: NodeView,
  capabilities: readonly BoundCapability[],
  now: Instant,
): readonly RuleTrace[] {
  return capabilities.flatMap((capability) =>
    rulesNamed(name, capability, view, now).map((rule): RuleTrace => {
      const trace = new Trace(rule);
      const { decision } = capability.contribute({ ...view, trace }, now);
      const phase = decision.outcomes?.find((it) => it.rule === rule)?.phase;
      const marks = decision.marks.flatMap((mark) => (mark.rule === rule ? [mark.id] : []));
      const said = { capability: capability.name, rule, marks, places: trace.found };
      return phase === undefined ? said : Object.assign(said, { phase });
    }),
  );
}

function rulesNamed(
  name: string,
  capability: BoundCapability,
  view: NodeView,
  now: Instant,
): readonly string[] {
  const { rules } = capability.contribute(view, now).policy;
  return [...rules].filter((rule) => rule === name || rule.slice(rule.indexOf("/") + 1) === name);
}
