/**
 * What a set of rules means, in the most obvious way: key by key, by recursion, without order, index or compiling. The
 * model test holds the engine to it.
 */
import type { Node } from "@berth/kube";
import { ownValue } from "../../node/mark.ts";
import type { RecordedMark } from "../../node/record.ts";
import { labelValueProblem } from "../../node/validate.ts";
import type { LabelOutput, MatchGroup, MatchTerm, Operator, ValueFrom } from "../document.ts";

export interface ReferenceCase {
  readonly match: MatchGroup;
  readonly output: Omit<LabelOutput, "key">;
}

export interface ReferenceRule {
  readonly name: string;
  readonly outputs: readonly { readonly key: string; readonly cases: readonly ReferenceCase[] }[];
  readonly overwrite: boolean;
  readonly dryRun: boolean;
  /** It only asks whether labels stand, and sets `true`. */
  readonly plain: boolean;
}

export interface ReferenceRules {
  readonly rules: readonly ReferenceRule[];
  /** Label keys of files that cannot be read and of rules that are not understood, with why. */
  readonly frozen: ReadonlyMap<string, string>;
  /** Rules that are there and not understood, with why. */
  readonly invalid: ReadonlyMap<string, string>;
  readonly sourcesRead: ReadonlySet<string>;
}

export interface ReferenceDecision {
  /** By label key. */
  readonly wanted: ReadonlyMap<string, Wish>;
  /** Label keys where what stands stays, with why. */
  readonly kept: ReadonlyMap<string, string>;
}

export interface Wish {
  readonly value: string;
  readonly rule: string;
  readonly overwrite: boolean;
}

const UNKNOWN: unique symbol = Symbol("unknown");
type Fact = string | undefined | typeof UNKNOWN;
type Truth = boolean | undefined;
type Read = (source: string, key: string) => Fact;

/** Rules in force, those left out because they cannot be decided, and the labels that still depend on themselves. */
export interface Untangled {
  readonly rules: readonly ReferenceRule[];
  readonly refused: ReadonlySet<string>;
  readonly circular: ReadonlySet<string>;
}

/** @param all those that came first stay in force. */
export function untangle(all: readonly ReferenceRule[]): Untangled {
  let rules = all.filter(({ plain }) => plain);
  const inTurn = all.filter(({ plain }) => !plain).toSorted((a, b) => Number(a.dryRun) - Number(b.dryRun));
  for (const rule of inTurn) {
    const reaches = dependencies([...rules, rule]);
    const isOnCycle = rule.outputs.some(({ key, cases }) =>
      labelsOf(cases).some((input) => input === key || reaches.get(input)?.has(key)),
    );
    if (!isOnCycle) rules.push(rule);
  }
  for (;;) {
    const reaches = dependencies(rules);
    const circular = new Set([...reaches.keys()].filter((key) => reaches.get(key)?.has(key)));
    const left = rules.filter(
      ({ plain, dryRun, outputs }) =>
        plain ||
        dryRun ||
        !outputs.some(({ key, cases }) => circular.has(key) && !cases.every((it) => saysTrue(it.output))),
    );
    if (left.length === rules.length) {
      const refused = new Set(all.filter((rule) => !rules.includes(rule)).map(({ name }) => name));
      return { rules, refused, circular };
    }
    rules = left;
  }
}

/** Label keys of rules that would be in force and cannot be, with why. */
export function frozenKeys(
  { rules, frozen }: ReferenceRules,
  { refused }: Untangled,
): ReadonlyMap<string, string> {
  const cyclic = rules.filter(({ name, dryRun }) => refused.has(name) && !dryRun);
  const keys = cyclic.flatMap(({ outputs }) => outputs.map(({ key }) => key));
  return new Map([...keys.map((key) => [key, "CyclicRule"] as const), ...frozen]);
}

function saysTrue({ value = "true", valueFrom, valueTemplate = "true" }: ReferenceCase["output"]): boolean {
  return valueFrom === undefined && value === "true" && valueTemplate === "true";
}

/** For every key of a rule, what it depends on with any number of steps between. */
function dependencies(rules: readonly ReferenceRule[]): ReadonlyMap<string, ReadonlySet<string>> {
  const reaches = new Map<string, Set<string>>();
  for (const { outputs } of rules)
    for (const { key, cases } of outputs)
      reaches.set(key, new Set([...(reaches.get(key) ?? []), ...labelsOf(cases)]));
  for (let grown = true; grown; ) {
    grown = false;
    for (const those of reaches.values())
      for (const more of Array.from(those).flatMap((key) => Array.from(reaches.get(key) ?? [])))
        if (!those.has(more)) {
          those.add(more);
          grown = true;
        }
  }
  return reaches;
}

function labelsOf(cases: readonly ReferenceCase[]): readonly string[] {
  return cases.flatMap(({ match, output }) => [...labelsIn(match), ...labelsInOutput(output)]);
}

function labelsIn({ all = [], any = [] }: MatchGroup): readonly string[] {
  return [...all, ...any].flatMap((term) => {
    if (term.key === undefined) return labelsIn(term);
    return (term.source ?? "Label") === "Label" ? [term.key] : [];
  });
}

function labelsInOutput({ valueFrom, valueTemplate = "" }: ReferenceCase["output"]): readonly string[] {
  const copied = valueFrom !== undefined && (valueFrom.source ?? "Label") === "Label" ? [valueFrom.key] : [];
  return [...copied, ...[...valueTemplate.matchAll(/\$\{Label\/([^}]*)\}/g)].map((it) => it[1] ?? "")];
}

/** What the rules say about this node, of which we recorded `owned` (by label key) as ours. */
export function decideByReference(
  all: ReferenceRules,
  node: Node,
  owned: ReadonlyMap<string, RecordedMark>,
): ReferenceDecision {
  const untangled = untangle(all.rules);
  const nothingLeft = { node, owned, left: new Set<string>() };
  const standing = new Evaluator(all, untangled, { ...nothingLeft, withoutCircular: false });
  const supported = new Evaluator(all, untangled, { ...nothingLeft, withoutCircular: true });
  const left = [...untangled.circular].filter(
    (key) => typeof standing.standsWithoutRules(key) === "string" && !supported.wants(key),
  );
  const evaluator = new Evaluator(all, untangled, {
    node,
    owned,
    withoutCircular: false,
    left: new Set(left),
  });
  return evaluator.decision();
}

interface Given {
  readonly node: Node;
  readonly owned: ReadonlyMap<string, RecordedMark>;
  readonly withoutCircular: boolean;
  readonly left: ReadonlySet<string>;
}

interface Verdict {
  /** The label as others see it. */
  readonly fact: Fact;
  readonly wish?: Wish;
  readonly kept?: string;
}

class Evaluator {
  readonly #all: ReferenceRules;
  readonly #untangled: Untangled;
  readonly #given: Given;
  readonly #frozen: ReadonlyMap<string, string>;
  readonly #memo = new Map<string, Verdict>();
  readonly #proven = new Map<string, Fact>();

  constructor(all: ReferenceRules, untangled: Untangled, given: Given) {
    this.#all = all;
    this.#untangled = untangled;
    this.#given = given;
    this.#frozen = frozenKeys(all, untangled);
  }

  wants(key: string): boolean {
    return this.#verdict(key, []).wish !== undefined;
  }

  decision(): ReferenceDecision {
    const wanted = new Map<string, Wish>();
    const kept = new Map<string, string>();
    const keys = new Set(this.#untangled.rules.flatMap(({ outputs }) => outputs.map(({ key }) => key)));
    for (const key of keys) {
      const verdict = this.#verdict(key, []);
      if (verdict.wish !== undefined) wanted.set(key, verdict.wish);
      if (verdict.kept !== undefined) kept.set(key, verdict.kept);
    }
    for (const [key, reason] of this.#frozen) if (!wanted.has(key)) kept.set(key, reason);
    for (const [key, { rule }] of this.#given.owned) {
      const reason = this.#whyWithheld(rule);
      if (reason !== undefined && !wanted.has(key) && !kept.has(key)) kept.set(key, reason);
    }
    return { wanted, kept };
  }

  #whyWithheld(rule: string): string | undefined {
    if (this.#untangled.refused.has(rule)) return "CyclicRule";
    const invalid = this.#all.invalid.get(rule);
    if (invalid !== undefined) return invalid;
    return this.#all.rules.find(({ name }) => name === rule)?.dryRun === true ? "DryRun" : undefined;
  }

  /** @param path the labels that are being decided: one of them is no support for itself. */
  #verdict(key: string, path: readonly string[]): Verdict {
    const known = this.#memo.get(key);
    if (known !== undefined) return known;
    if (path.includes(key)) return { fact: this.#proven.get(key) ?? this.standsWithoutRules(key) };
    const verdict = this.#decide(key, [...path, key]);
    if (!this.#untangled.circular.has(key)) this.#memo.set(key, verdict);
    if (this.#memo.has(key) || verdict.wish === undefined) return verdict;
    // It stands without its own support; now that it does, rules that need it hold as well.
    this.#proven.set(key, verdict.fact);
    const whole = this.#decide(key, [...path, key]);
    this.#proven.delete(key);
    return whole;
  }

  #decide(key: string, path: readonly string[]): Verdict {
    const read: Read = (source, key) =>
      source === "Label" ? this.#verdict(key, path).fact : readStatus(this.#given.node, source, key);
    const wishes: Wish[] = [];
    let untold = false;
    let invalid = false;
    for (const { name, outputs, overwrite, dryRun } of this.#untangled.rules) {
      const value = valueOf(outputs.find((it) => it.key === key)?.cases ?? [], read);
      if (value === undefined || dryRun) continue;
      if (value === UNKNOWN) untold = true;
      else if (labelValueProblem(value) !== undefined) invalid = true;
      else wishes.push({ value, rule: name, overwrite });
    }
    const standing = ownValue(this.#given.node.metadata?.labels, key);
    const [wish] = wishes.sort((a, b) => (a.rule < b.rule ? -1 : 1));
    if (wish === undefined) {
      if (untold) return { fact: this.standsWithoutRules(key) ?? UNKNOWN, kept: "RuleUnreadable" };
      return invalid ? { fact: standing, kept: "MarkInvalid" } : { fact: this.standsWithoutRules(key) };
    }
    if (wishes.some(({ value }) => value !== wish.value)) return { fact: standing, kept: "RuleConflict" };
    if (this.#given.left.has(key)) return { fact: standing };
    const overwrite = wishes.some((it) => it.overwrite);
    const stays = standing !== undefined && !overwrite && !this.#given.owned.has(key);
    return { fact: stays ? standing : wish.value, wish: { ...wish, overwrite } };
  }

  /** The label as far as no rule in force has set it. */
  standsWithoutRules(key: string): Fact {
    const standing = ownValue(this.#given.node.metadata?.labels, key);
    if (this.#given.withoutCircular && this.#untangled.circular.has(key)) return undefined;
    if (this.#frozen.has(key)) return standing ?? UNKNOWN;
    const recorded = this.#given.owned.get(key);
    if (recorded === undefined || this.#whyWithheld(recorded.rule) !== undefined) return standing;
    return this.#all.sourcesRead.has(recorded.rule.replace(/\/.*/, "")) ? undefined : standing;
  }
}

function valueOf(cases: readonly ReferenceCase[], read: Read): Fact {
  for (const { match, output } of cases) {
    const truth = holds(match, read);
    if (truth === undefined) return UNKNOWN;
    if (!truth) continue;
    const value = outputOf(output, read);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Does the value that the rule says come out of these facts? For what stands on a node in the end. */
export function holdsOn(cases: readonly ReferenceCase[], node: Node): string | undefined {
  const value = valueOf(cases, (source, key) =>
    source === "Label" ? ownValue(node.metadata?.labels, key) : readStatus(node, source, key),
  );
  return value === UNKNOWN ? undefined : value;
}

export function holds({ all = [], any }: MatchGroup, read: Read): Truth {
  const of = (term: MatchTerm): Truth =>
    term.key === undefined ? holds(term, read) : compares({ ...term, key: term.key }, read);
  const some = any?.map(of) ?? [true];
  const either: Truth = some.includes(true) ? true : some.includes(undefined) ? undefined : false;
  const every = new Set([...all.map(of), either]);
  return every.has(false) ? false : every.has(undefined) ? undefined : true;
}

function compares(
  { source = "Label", key, operator = "Exists", values = [] }: MatchTerm & { key: string },
  read: Read,
): Truth {
  const fact = read(source, key);
  if (fact === UNKNOWN) return undefined;
  const there = typeof fact === "string";
  const text = there ? fact : "";
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  const [first = ""] = values;
  const truths: Readonly<Record<Operator, () => boolean>> = {
    Exists: () => there,
    DoesNotExist: () => !there,
    In: () => there && values.includes(text),
    NotIn: () => !there || !values.includes(text),
    Matches: () => there && new RegExp(first).test(text),
    DoesNotMatch: () => !there || !new RegExp(first).test(text),
    Gt: () => number > Number(first),
    Ge: () => number >= Number(first),
    Lt: () => number < Number(first),
    Le: () => number <= Number(first),
  };
  return truths[operator]();
}

function outputOf(
  { value = "true", valueFrom, valueTemplate, sanitize = false }: ReferenceCase["output"],
  read: Read,
): Fact {
  const raw =
    valueFrom === undefined
      ? valueTemplate === undefined
        ? value
        : filled(valueTemplate, read)
      : copied(valueFrom, read);
  // The alphabet of the model has no other character that a label value cannot hold.
  return sanitize && typeof raw === "string" ? raw.replaceAll(" ", "_") : raw;
}

function copied({ source = "Label", key, pattern }: ValueFrom, read: Read): Fact {
  const fact = read(source, key);
  if (typeof fact !== "string" || pattern === undefined) return fact;
  const match = new RegExp(pattern).exec(fact);
  return match === null ? undefined : (match[1] ?? match[0]);
}

function filled(template: string, read: Read): Fact {
  let facts: Fact = "";
  const text = template.replace(/\$\{(\w+)\/([^}]*)\}/g, (_all, source: string, key: string) => {
    const fact = read(source, key);
    if (typeof fact === "string") return fact;
    // The first that is missing or not known decides.
    if (facts === "") facts = fact;
    return "";
  });
  return facts === "" ? text : facts;
}

function readStatus(node: Node, source: string, key: string): string | undefined {
  const { status, spec, metadata } = node;
  // What we write is evidence of nothing.
  if (key === "berth.dev/marks") return undefined;
  if (source === "Annotation") return ownValue(metadata?.annotations, key);
  if (source === "Capacity") return ownValue(status?.capacity, key);
  if (source === "Condition") return status?.conditions?.find(({ type }) => type === key)?.status;
  if (source === "NodeInfo" && key === "architecture") return status?.nodeInfo?.architecture || undefined;
  if (source === "Taint") {
    const taint = spec?.taints?.find((it) => it.key === key);
    return taint === undefined ? undefined : (taint.value ?? "");
  }
  return undefined;
}
