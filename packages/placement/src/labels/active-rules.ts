/** Combines the rules of all sources. Big edits wait until a person confirms them. */

import { type DocumentFault, documentName, ruleName } from "@berth/host";
import { reasons } from "../api/reasons.ts";
import type { NodeView } from "../node/capability.ts";
import { ownValue } from "../node/mark.ts";
import {
  confirmedAt,
  type DocumentSet,
  digestOf,
  type LabelRuleDocument,
  parseLabelRules,
} from "./compile.ts";
import type { LabelOptions } from "./config.ts";
import { evaluate } from "./evaluate.ts";
import { compileRules, describeCycle, LABELS, type LabelRules, type RuleSet } from "./rules.ts";

export interface RuleSources {
  readonly folder?: RuleSet;
  readonly documents: readonly DocumentSet[];
  readonly options: LabelOptions;
}

/** A rule that would change more nodes than it may without confirmation. */
export interface WaitingRule {
  /** Number of nodes that the rule would change; `undefined` until all nodes are known. `of` is the number of nodes. */
  readonly touched: number | undefined;
  readonly of: number;
  /** The limit of the rule, in per cent of all nodes: `confirmAbovePercent`. */
  readonly percent: number;
}

export interface AssembledRules {
  readonly rules: LabelRules;
  /** Faults of documents that are not in force. */
  readonly faults: readonly DocumentFault[];
  /** By rule name. */
  readonly waiting: ReadonlyMap<string, WaitingRule>;
  /** By rule name: the digest of the spec in force, for rules with a limit. Pass it to the next call. */
  readonly admitted: ReadonlyMap<string, string>;
}

interface AssembleInput {
  readonly sources: RuleSources;
  /** All nodes, to count how many an edit would change; `undefined` while they are not known. */
  readonly nodes: Iterable<NodeView> | undefined;
  /** `admitted` of the previous call: these specs need no confirmation. */
  readonly admitted?: ReadonlyMap<string, string>;
  /** Rules that wait, as the caller already knows. With this set, `assembleRules` counts nothing. */
  readonly known?: ReadonlySet<string>;
  /** Counts nothing where the length of the conditions to count, as text, times the nodes is more. Default: no limit. */
  readonly mostCompared?: number;
}

/** Compiles all rules. Counts nodes only for rules that are new or edited and set `confirmAbovePercent`. */
export function assembleRules(input: AssembleInput): AssembledRules {
  const { sources, admitted = new Map<string, string>(), known, mostCompared = Infinity } = input;
  const asking = new Map(askingRules(sources, admitted));
  const isMore =
    mostCompared < Infinity && lengthOf(asking.values()) * sizeOf(input.nodes ?? []) > mostCompared;
  const nodes = isMore ? undefined : input.nodes;
  const waiting = new Map<string, WaitingRule>();
  const candidate = known === undefined && asking.size > 0 ? parse(sources, new Map()) : undefined;
  const counts = candidate && nodes && countTouched(nodes, candidate.rules, asking);
  for (const [name, { confirmAbovePercent: percent = 0 }] of asking) {
    const touched = counts && (counts.touched.get(name) ?? 0);
    const of = counts?.of ?? 0;
    const waits = known?.has(name) ?? (touched === undefined || touched * 100 > percent * of);
    if (waits) waiting.set(name, { touched, of, percent });
  }
  // When no rule has to wait, the rules used for counting come into force.
  const { rules, faults } =
    candidate !== undefined && waiting.size === 0 ? candidate : parse(sources, waiting);
  const inForce = new Map<string, string>();
  for (const [name, { spec }] of namedDocuments(sources)) {
    // Other rules need no confirmation. The cost of a digest grows with the spec, so skip it.
    if (spec.confirmAbovePercent === undefined) continue;
    if (!waiting.has(name)) inForce.set(name, digestOf(spec));
    else if (admitted.has(name)) inForce.set(name, admitted.get(name) ?? "");
  }
  return { rules, faults, waiting, admitted: inForce };
}

function* namedDocuments({ documents }: RuleSources): Generator<readonly [string, LabelRuleDocument]> {
  for (const { source, documents: all } of documents)
    for (const one of all) yield [ruleName(source, one.name), one];
}

/** Rules that must not act before Berth has counted their changes. */
function* askingRules(
  sources: RuleSources,
  admitted: ReadonlyMap<string, string>,
): Generator<[string, LabelRuleDocument["spec"]]> {
  for (const [name, document] of namedDocuments(sources)) {
    const { spec } = document;
    if (spec.confirmAbovePercent === undefined || spec.dryRun) continue;
    if (admitted.get(name) !== digestOf(spec) && confirmedAt(document) === undefined) yield [name, spec];
  }
}

function lengthOf(specs: IteratorObject<LabelRuleDocument["spec"]>): number {
  return specs.reduce((sum, { match }) => sum + JSON.stringify(match).length, 0);
}

function sizeOf(all: Iterable<unknown>): number {
  let size = 0;
  for (const _ of all) size += 1;
  return size;
}

function parse(
  { folder, documents, options }: RuleSources,
  waiting: ReadonlyMap<string, WaitingRule>,
): Pick<AssembledRules, "rules" | "faults"> {
  const parsed = documents.map((set) => {
    const names = set.documents.map(({ name }) => name);
    const unconfirmed = new Set(names.filter((name) => waiting.has(ruleName(set.source, name))));
    return parseLabelRules({ ...set, options, unconfirmed });
  });
  const rules = compileRules([...(folder ? [folder] : []), ...parsed.map(({ set }) => set)]);
  return { rules, faults: [...parsed.flatMap(({ faults }) => faults), ...cyclicFaults(rules)] };
}

function cyclicFaults({ cyclic }: LabelRules): readonly DocumentFault[] {
  return cyclic.flatMap((refusal) =>
    (["config", "cluster"] as const).flatMap((source): readonly DocumentFault[] => {
      const name = documentName(refusal.rule.name, source);
      if (name === undefined) return [];
      return [{ name, source, path: ["match"], reason: reasons.CyclicRule, message: describeCycle(refusal) }];
    }),
  );
}

/** Counts the nodes on which each of these rules would set, change or remove a label. */
function countTouched(
  nodes: Iterable<NodeView>,
  rules: LabelRules,
  names: ReadonlyMap<string, unknown>,
): { readonly touched: ReadonlyMap<string, number>; readonly of: number } {
  const touched = new Map<string, number>();
  let of = 0;
  for (const view of nodes) {
    of += 1;
    for (const name of touchedBy(view, rules, names)) touched.set(name, (touched.get(name) ?? 0) + 1);
  }
  return { touched, of };
}

function touchedBy(
  view: NodeView,
  rules: LabelRules,
  names: ReadonlyMap<string, unknown>,
): ReadonlySet<string> {
  const found = new Set<string>();
  const evaluation = evaluate(view, rules);
  const labels = view.node.metadata?.labels;
  for (const [key, { rules: about, claim, value, overwrite }] of evaluation?.wanted ?? []) {
    const standing = ownValue(labels, key);
    if (!names.has(claim.rule.name) || standing === value) continue;
    // Berth keeps a value that another controller or a user set.
    if (standing === undefined || overwrite || view.owned.has(about.id)) found.add(claim.rule.name);
  }
  for (const [id, { capability, rule }] of view.owned) {
    if (capability !== LABELS || !names.has(rule) || found.has(rule)) continue;
    const key = id.slice("label/".length);
    if (evaluation?.wanted.has(key) !== true && evaluation?.keep.has(id) !== true) found.add(rule);
  }
  return found;
}

/** The message for the user: why the rule waits, and which command to run. */
export function describeWaiting(name: string, { touched = 0, of, percent: most }: WaitingRule): string {
  const percent = of === 0 ? 0 : Math.round((touched * 100) / of);
  return (
    `it would change ${touched} of ${of} nodes (${percent} %), more than ${most} %: ` +
    `look at \`berth plan\`, then run \`berth confirm ${name}\``
  );
}
