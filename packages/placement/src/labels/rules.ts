/** Compiles the rules of all sources: their dependencies, the keys they may write, and the rules not in force. */
import { type Reason, reasons } from "../api/reasons.ts";
import type { Silencing } from "../api/warnings.ts";
import type { Policy, RemovalPolicy } from "../node/capability.ts";
import { labelId, type MarkId } from "../node/mark.ts";
import { noMarks } from "../node/mark-set.ts";
import { isProtectedKey } from "../node/validate.ts";
import type { Condition } from "./condition.ts";
import { type KeyOrder, orderKeys } from "./cycles.ts";
import { DEFAULT_VALUE, type LabelValue } from "./value.ts";

/** The name under which label rules record their marks. */
export const LABELS = "labels";

/** One case of a label. The first case with a true condition and an existing value sets the label. */
export interface RuleCase {
  readonly when: Condition;
  readonly value: LabelValue;
}

export interface Rule extends Silencing {
  /** `<source>/<name>`, as recorded on nodes. */
  readonly name: string;
  readonly outputs: readonly { readonly key: string; readonly cases: readonly RuleCase[] }[];
  /** True: Berth replaces a value that another controller or a user has set. */
  readonly overwrite: boolean;
  /** Why the rule is evaluated but changes nothing. Its marks stay as they are. */
  readonly withheld?: Reason;
  /** How Berth removes its labels after their inputs disappear. Absent: at once. */
  readonly removal?: RemovalPolicy;
  /**
   * Label keys and the line of each, for a rule that only tests whether labels exist. A cycle of such rules has one
   * least solution. Any other rule that depends on its own label is refused.
   */
  readonly plain?: ReadonlyMap<string, number>;
}

/** The rules of one source. */
export interface RuleSet {
  /** First part of the names of its rules. */
  readonly source: string;
  /** Berth has read the whole source, so a missing rule was deleted on purpose. */
  readonly complete: boolean;
  /** Rules may still be missing; only those in `deleted` were deleted on purpose. Default: no rule is missing. */
  readonly unsettled?: { readonly deleted: ReadonlySet<string> };
  readonly rules: readonly Rule[];
  /** Label keys whose rule is unreadable or refused, with the reason. Berth cannot decide them. */
  readonly frozen: ReadonlyMap<string, Reason>;
  /** Rules that exist but cannot be in force, with the reason. Their labels stay as they are. */
  readonly refused: ReadonlyMap<string, Reason>;
  readonly isAllowed: (key: string) => boolean;
}

/** The cases of one rule for one label. */
export interface Claim {
  readonly rule: Rule;
  readonly cases: readonly RuleCase[];
}

/** All claims on one label. */
export interface KeyRules {
  readonly key: string;
  readonly id: MarkId;
  /** In order of rule name. */
  readonly claims: readonly Claim[];
  /** Keys with a lower rank are decided first. */
  readonly rank: number;
  /** The label depends on itself, directly or through other labels. */
  readonly circular: boolean;
}

/** A rule that is refused because of a cycle: it closes one and is not plain, or wants another value for a label on one. */
export interface CyclicRefusal {
  readonly rule: Rule;
  /** Labels on the cycle, sorted. */
  readonly keys: readonly string[];
  /** Names of the other rules that set these labels. */
  readonly others: readonly string[];
}

/** All rules, indexed by triggers. So the cost of a decision depends on the labels of the node, not on all rules. */
export interface LabelRules {
  readonly byKey: ReadonlyMap<string, KeyRules>;
  readonly byTrigger: ReadonlyMap<string, readonly KeyRules[]>;
  /** Keys whose rules can hold on a node without any label, in order of rank. */
  readonly untriggered: readonly KeyRules[];
  /** Frozen keys of the sets and of cyclic rules. If a rule in force wants such a label, that rule decides it. */
  readonly frozen: ReadonlyMap<string, Reason>;
  /** Rules that change nothing at present, with the reason. Their marks stay. */
  readonly withheld: ReadonlyMap<string, Reason>;
  readonly policy: Policy;
  /** Rules in force. */
  readonly count: number;
  /** Every line through which a plain rule depends on its own label, in order of rule and line. */
  readonly circular: readonly { readonly rule: Rule; readonly input: string; readonly line: number }[];
  readonly cyclic: readonly CyclicRefusal[];
  /** Labels that two or more rules in force set. */
  readonly overlaps: readonly KeyRules[];
}

/** @param sets in order of precedence, and so their rules: of those on a cycle, the first stay in force. */
export function compileRules(sets: readonly RuleSet[]): LabelRules {
  const { rules, order, cyclic } = withoutCycles(sets.flatMap((set) => set.rules));
  const byKey = toKeyRules(rules, order);
  const byTrigger = new Map<string, KeyRules[]>();
  const untriggered: KeyRules[] = [];
  for (const one of byKey.values()) {
    const triggers = triggersOf(one);
    if (triggers === undefined) untriggered.push(one);
    // A key on a cycle may have to be decided again after other keys of the cycle are decided.
    const wakers =
      triggers ?? (one.circular ? new Set(one.claims.flatMap(({ cases }) => labelsRead(cases))) : []);
    for (const key of wakers) append(byTrigger, key, one);
  }
  untriggered.sort((a, b) => a.rank - b.rank);
  const withheld = new Map<string, Reason>([
    ...sets.flatMap((set) => [...set.refused]),
    ...cyclic.map(({ rule }) => [rule.name, reasons.CyclicRule] as const),
    ...rules.flatMap((rule) => (rule.withheld === undefined ? [] : [[rule.name, rule.withheld] as const])),
  ]);
  return {
    byKey,
    byTrigger,
    untriggered,
    frozen: frozenKeys(sets, cyclic),
    withheld,
    policy: policyOf(sets, rules, withheld),
    count: rules.filter(isInForce).length,
    circular: circularLines(rules, order),
    cyclic,
    overlaps: [...byKey.values()].filter(
      ({ claims }) => claims.filter(({ rule }) => isInForce(rule)).length > 1,
    ),
  };
}

/**
 * Adds a label key that Berth cannot decide. If a key has several reasons, the last in the alphabet is kept, so the
 * order of files and sources does not matter.
 */
export function freeze(frozen: Map<string, Reason>, key: string, reason: Reason): void {
  const before = frozen.get(key);
  if (before === undefined || before < reason) frozen.set(key, reason);
}

/** Skips cyclic rules that were withheld anyway: they would set no label. */
function frozenKeys(sets: readonly RuleSet[], cyclic: readonly CyclicRefusal[]): ReadonlyMap<string, Reason> {
  const frozen = new Map<string, Reason>();
  for (const set of sets) for (const [key, reason] of set.frozen) freeze(frozen, key, reason);
  for (const { rule } of cyclic) {
    if (!isInForce(rule)) continue;
    for (const { key } of rule.outputs) freeze(frozen, key, reasons.CyclicRule);
  }
  return frozen;
}

/** Removes rules that cannot be decided, because they depend on themselves or disturb a cycle of plain rules. */
function withoutCycles(all: readonly Rule[]) {
  const cyclic = [...closingCycles(all)];
  for (;;) {
    const refused = new Set(cyclic.map(({ rule }) => rule));
    const rules = all.filter((rule) => !refused.has(rule));
    const order = orderKeys(inputsByKey(rules));
    const disturbing = rules.flatMap((rule) => refusalOf(rule, disturbedBy(rule, order), { rules, order }));
    if (disturbing.length === 0) return { rules, order, cyclic };
    cyclic.push(...disturbing);
  }
}

/**
 * The rules that close a cycle: those of a cycle that came first stay in force. Withheld rules come last, because a rule
 * that changes nothing must not cause the refusal of a rule in force.
 */
function* closingCycles(all: readonly Rule[]): Generator<CyclicRefusal> {
  const whole = orderKeys(inputsByKey(all));
  const { circular = [], kept = [] } = Object.groupBy(all, (rule) =>
    cycleOf(rule, whole) === undefined ? "kept" : "circular",
  );
  const inputs = inputsByKey(kept);
  for (const rule of [...circular.filter(isInForce), ...circular.filter((it) => !isInForce(it))]) {
    const own = inputsByKey([rule]);
    const inputsOf = (key: string) => [...(own.get(key) ?? []), ...(inputs.get(key) ?? [])];
    if (!rule.outputs.some(({ key, cases }) => leadsTo(key, labelsRead(cases), inputsOf))) {
      kept.push(rule);
      for (const [key, more] of own) for (const input of more) append(inputs, key, input);
      continue;
    }
    // A cycle is within one component of the whole: the order of all rules, for each refusal, would take too long.
    const ranks = new Set(rule.outputs.map(({ key }) => whole.rank.get(key)));
    const near = kept.filter(({ outputs }) => outputs.some(({ key }) => ranks.has(whole.rank.get(key))));
    const order = orderKeys(inputsByKey([...near, rule]));
    yield* refusalOf(rule, cycleOf(rule, order), { rules: near, order });
  }
}

/** Whether one of these keys is the key, or depends on it. */
function leadsTo(
  key: string,
  from: readonly string[],
  inputsOf: (key: string) => readonly string[],
): boolean {
  const seen = new Set(from);
  // The loop also visits what is added meanwhile.
  for (const one of seen) {
    if (one === key) return true;
    for (const input of inputsOf(one)) seen.add(input);
  }
  return false;
}

/** @param cycle the rank of the cycle because of which the rule is refused. `undefined`: it is not. */
function refusalOf(
  rule: Rule,
  cycle: number | undefined,
  { rules, order }: { readonly rules: readonly Rule[]; readonly order: KeyOrder },
): readonly CyclicRefusal[] {
  if (cycle === undefined) return [];
  const keys = new Set([...order.rank].flatMap(([key, rank]) => (rank === cycle ? [key] : [])));
  const others = rules.filter((it) => it !== rule && it.outputs.some(({ key }) => keys.has(key)));
  return [{ rule, keys: [...keys].sort(), others: others.map(({ name }) => name) }];
}

function isInForce({ withheld }: Rule): boolean {
  return withheld === undefined;
}

/** A message names at most this many labels of a cycle, and as many rules. */
const MOST_NAMED = 5;

export function describeCycle({ keys, others }: CyclicRefusal): string {
  const named = (names: readonly string[]): string => {
    const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : "";
    return `${names.slice(0, MOST_NAMED).join(", ")}${more}`;
  };
  const against =
    others.length === 0 ? "" : `; ${named(others)} ${others.length === 1 ? "stays" : "stay"} in force`;
  return `it depends on its own label through ${named(keys)}${against}`;
}

function inputsByKey(rules: readonly Rule[]): Map<string, string[]> {
  const inputs = new Map<string, string[]>();
  for (const { outputs } of rules) {
    for (const { key, cases } of outputs) for (const input of labelsRead(cases)) append(inputs, key, input);
    for (const { key } of outputs) if (!inputs.has(key)) inputs.set(key, []);
  }
  return inputs;
}

function labelsRead(cases: readonly RuleCase[]): readonly string[] {
  const refs = cases.flatMap(({ when, value }) => [...when.reads, ...value.reads]);
  return refs.flatMap(({ source, key }) => (source === "Label" ? [key] : []));
}

/** The rank of the first cycle with an output of the rule for which `holds` is true. Plain rules are never refused. */
function cycleWith(
  { outputs, plain }: Rule,
  { rank, circular }: KeyOrder,
  holds: (cases: readonly RuleCase[], cycle: number) => boolean,
): number | undefined {
  if (plain !== undefined) return undefined;
  const found = outputs.find(({ key, cases }) => {
    const own = rank.get(key);
    return own !== undefined && circular.has(own) && holds(cases, own);
  });
  return found && rank.get(found.key);
}

/** The rank of a cycle that leads through this rule. */
function cycleOf(rule: Rule, order: KeyOrder): number | undefined {
  return cycleWith(rule, order, (cases, own) => labelsRead(cases).some((it) => order.rank.get(it) === own));
}

/**
 * The rank of a cycle of plain rules that the rule would disturb. The rule wants another value for a label on the
 * cycle. The conflict would remove an input of the cycle, which then has no least solution.
 */
function disturbedBy(rule: Rule, order: KeyOrder): number | undefined {
  if (!isInForce(rule)) return undefined;
  return cycleWith(rule, order, (cases) => !cases.every(isPlainValue));
}

function isPlainValue({ value }: RuleCase): boolean {
  return value.reads.length === 0 && value.of(() => undefined) === DEFAULT_VALUE;
}

function toKeyRules(rules: readonly Rule[], { rank, circular }: KeyOrder): ReadonlyMap<string, KeyRules> {
  const claims = new Map<string, Claim[]>();
  for (const rule of rules) for (const { key, cases } of rule.outputs) append(claims, key, { rule, cases });
  const toKey = (key: string, those: Claim[]): KeyRules => {
    const own = rank.get(key) ?? 0;
    those.sort((a, b) => (a.rule.name < b.rule.name ? -1 : 1));
    return { key, id: labelId(key), claims: those, rank: own, circular: circular.has(own) };
  };
  return new Map(Array.from(claims, ([key, those]) => [key, toKey(key, those)]));
}

/** The rules of this key can hold only on a node with one of these labels; `undefined`: on any node. */
function triggersOf({ claims }: KeyRules): ReadonlySet<string> | undefined {
  const triggers = claims.flatMap(({ cases }) => cases.map(({ when }) => when.triggers));
  return triggers.includes(undefined) ? undefined : new Set(triggers.flatMap((it) => Array.from(it ?? [])));
}

function circularLines(rules: readonly Rule[], { rank, circular }: KeyOrder): LabelRules["circular"] {
  return rules.flatMap((rule) => {
    const [output] = rule.outputs;
    const own = output === undefined ? undefined : rank.get(output.key);
    if (own === undefined || !circular.has(own)) return [];
    const lines = [...(rule.plain ?? [])].filter(([input]) => rank.get(input) === own);
    return lines.map(([input, line]) => ({ rule, input, line }));
  });
}

function policyOf(
  sets: readonly RuleSet[],
  rules: readonly Rule[],
  withheld: ReadonlyMap<string, Reason>,
): Policy {
  const keysOf = (set: RuleSet): readonly string[] => [
    ...set.rules.flatMap(({ outputs }) => outputs.map(({ key }) => key)),
    ...set.frozen.keys(),
  ];
  const allowed = sets.flatMap((set) =>
    keysOf(set).filter((key) => isProtectedKey(key) && set.isAllowed(key)),
  );
  const unsettled = sets.filter((set) => set.unsettled !== undefined);
  const removals = rules.flatMap(({ name, removal }) =>
    removal === undefined ? [] : [[name, removal] as const],
  );
  return {
    sourcesRead: new Set(sets.filter(({ complete }) => complete).map(({ source }) => source)),
    rules: new Set([...rules.map(({ name }) => name), ...withheld.keys()]),
    declared: { ids: new Set(sets.flatMap(keysOf).map(labelId)), prefixes: [] },
    allowedProtected: { ids: new Set(allowed.map(labelId)), prefixes: [] },
    exclusive: noMarks,
    ...(removals.length > 0 && { removals: new Map(removals) }),
    ...(unsettled.length > 0 && {
      unsettled: {
        sources: new Set(unsettled.map(({ source }) => source)),
        deleted: new Set(unsettled.flatMap((set) => Array.from(set.unsettled?.deleted ?? []))),
      },
    }),
  };
}

function append<K, T>(map: Map<K, T[]>, key: K, value: T): void {
  const those = map.get(key);
  if (those === undefined) map.set(key, [value]);
  else those.push(value);
}
