import { reasons } from "../../api/reasons.ts";
import type { Policy } from "../capability.ts";
import { labelId, type Mark, type MarkId } from "../mark.ts";
import { noMarks } from "../mark-set.ts";
import { isProtectedKey } from "../validate.ts";
import { circularKeys } from "./cycles.ts";

/** One rule as written: a node with any of these label keys gets the label `key`. */
export interface LabelRule {
  /** `<source>/<name>`, as recorded on nodes. */
  readonly name: string;
  readonly key: string;
  /** Label keys, each with the line that names it (1 where there are no lines). */
  readonly anyOf: ReadonlyMap<string, number>;
}

/** A rule with everything about it that does not depend on the node. */
export interface CompiledRule {
  readonly rule: LabelRule;
  readonly id: MarkId;
  /** The mark it contributes, shared by all nodes. */
  readonly mark: Mark;
  /** It depends on its own label, directly or through others. */
  readonly circular: boolean;
}

/** All rules, indexed by what they look at, so that a decision costs the labels of the node and not the rules. */
export interface LabelRules {
  readonly byInput: ReadonlyMap<string, readonly CompiledRule[]>;
  readonly byKey: ReadonlyMap<string, CompiledRule>;
  /** Label keys whose rule cannot be read at present. */
  readonly frozen: ReadonlySet<string>;
  readonly policy: Policy;
  /** Every place where a rule depends on its own label, in order of key and line. */
  readonly circular: readonly { readonly rule: LabelRule; readonly input: string; readonly line: number }[];
}

export interface CompileInput {
  /** At most one for each key. */
  readonly rules: readonly LabelRule[];
  readonly frozen: ReadonlySet<string>;
  readonly sourcesRead: readonly string[];
  readonly isAllowed: (key: string) => boolean;
}

export function compileRules(input: CompileInput): LabelRules {
  const components = circularKeys(new Map(input.rules.map(({ key, anyOf }) => [key, [...anyOf.keys()]])));
  const byInput = new Map<string, CompiledRule[]>();
  const byKey = new Map<string, CompiledRule>();
  const circular: { rule: LabelRule; input: string; line: number }[] = [];
  for (const rule of input.rules) {
    const compiled = compileRule(rule, components.has(rule.key));
    byKey.set(rule.key, compiled);
    for (const [key, line] of rule.anyOf) {
      const those = byInput.get(key);
      if (those === undefined) byInput.set(key, [compiled]);
      else those.push(compiled);
      const component = components.get(rule.key);
      if (component !== undefined && components.get(key) === component)
        circular.push({ rule, input: key, line });
    }
  }
  return { byInput, byKey, frozen: input.frozen, policy: policyOf(input), circular };
}

/** What the original writes, whatever the value of the label that matched. */
const VALUE = "true";

function compileRule(rule: LabelRule, circular: boolean): CompiledRule {
  const id = labelId(rule.key);
  const reason = reasons.RuleMatched;
  const mark: Mark = Object.freeze({ id, value: VALUE, rule: rule.name, reason, foreign: "overwrite" });
  return { rule, id, mark, circular };
}

function policyOf({ rules, frozen, sourcesRead, isAllowed }: CompileInput): Policy {
  const keys = [...rules.map(({ key }) => key), ...frozen];
  const allowed = keys.filter((key) => isProtectedKey(key) && isAllowed(key));
  return {
    sourcesRead: new Set(sourcesRead),
    rules: new Set(rules.map(({ name }) => name)),
    declared: { ids: new Set(keys.map(labelId)), prefixes: [] },
    allowedProtected: { ids: new Set(allowed.map(labelId)), prefixes: [] },
    exclusive: noMarks,
  };
}
