/** Evaluates, for one node, the rules that can hold on it. */
import { type Reason, reasons } from "../api/reasons.ts";
import { type Finding, isRuleKnown, type NodeView, type RuleOutcome } from "../node/capability.ts";
import { labelId, type MarkId, ownValue } from "../node/mark.ts";
import { labelValueProblem } from "../node/validate.ts";
import { type Fact, type FactRef, type ReadFact, readNode, unknown } from "./facts.ts";
import { type Claim, type KeyRules, LABELS, type LabelRules } from "./rules.ts";

/** A label that rules want. `claim` is from the first of these rules by name. */
export interface WantedLabel {
  readonly rules: KeyRules;
  readonly claim: Claim;
  readonly value: string;
  readonly overwrite: boolean;
}

export interface Evaluation {
  readonly wanted: ReadonlyMap<string, WantedLabel>;
  /** Labels that must not change now, with the reason: for example, the right value is unknown. */
  readonly keep: ReadonlyMap<MarkId, Reason>;
  readonly findings: readonly Finding[];
  readonly outcomes: readonly RuleOutcome[];
}

interface Options {
  /** Ignores foreign labels on cycles. Labels that are still wanted do not depend on them. */
  readonly withoutCircular?: boolean;
  /** Labels on cycles that Berth does not change. */
  readonly left?: ReadonlySet<string>;
}

/**
 * Decides every label after its inputs, so that chains settle in one pass. A label that Berth set is no input: the
 * present result of the rules replaces it. Foreign labels are inputs. Marks of Berth that no rule may change now are
 * inputs, too.
 *
 * Berth does not change a foreign label on a cycle of rules, unless something outside the cycle asks for it. If Berth
 * took it over, the label would no longer be an input, and the next pass would remove it.
 *
 * @returns `undefined` when no rule can hold on the node. This case is cheap.
 */
export function evaluate(view: NodeView, rules: LabelRules): Evaluation | undefined {
  const foreign = foreignOnCycles(view, rules);
  if (foreign === undefined) return evaluateOnce(view, rules, {});
  const supported = evaluateOnce(view, rules, { withoutCircular: true })?.wanted;
  return evaluateOnce(view, rules, { left: new Set(foreign.filter((key) => supported?.has(key) !== true)) });
}

/** Labels on cycles that the rules did not derive: foreign labels, and marks that must stay as they are. */
function foreignOnCycles(view: NodeView, rules: LabelRules): readonly string[] | undefined {
  if (rules.circular.length === 0) return undefined;
  return standing(view, (key) => rules.byKey.get(key)?.circular === true && !isDerived(view, rules, key));
}

/** The labels of the node for which `isAsked` is true. `undefined` for none saves an allocation for most nodes. */
function standing({ node }: NodeView, isAsked: (key: string) => boolean): readonly string[] | undefined {
  const labels = node.metadata?.labels ?? {};
  let found: string[] | undefined;
  for (const key in labels) if (Object.hasOwn(labels, key) && isAsked(key)) (found ??= []).push(key);
  return found;
}

function evaluateOnce(view: NodeView, rules: LabelRules, options: Options): Evaluation | undefined {
  const isTrigger = (key: string): boolean =>
    rules.byTrigger.has(key) && !isDerived(view, rules, key) && !isIgnored(rules, key, options);
  const triggers = rules.byTrigger.size === 0 ? undefined : standing(view, isTrigger);
  const idle = triggers === undefined && rules.untriggered.length === 0 && rules.frozen.size === 0;
  if (view.trace !== undefined) return new Pass(view, rules, options).run(triggers ?? []);
  if (idle && (rules.withheld.size === 0 || view.owned.size === 0)) return undefined;
  return new Pass(view, rules, options).run(triggers ?? []);
}

/** True for a label that Berth set and decides again: not frozen, not staying, not of a withheld or unread rule. */
function isDerived(view: NodeView, rules: LabelRules, key: string): boolean {
  if (view.owned.size === 0 || rules.frozen.has(key)) return false;
  const recorded = view.owned.get(`label/${key}`);
  if (recorded?.capability !== LABELS || rules.withheld.has(recorded.rule)) return false;
  if (view.staying?.has(`label/${key}`) === true) return false;
  return isRuleKnown(rules.policy, recorded.rule);
}

function isIgnored(rules: LabelRules, key: string, { withoutCircular = false }: Options): boolean {
  return withoutCircular && rules.byKey.get(key)?.circular === true;
}

class Pass {
  readonly #view: NodeView;
  readonly #rules: LabelRules;
  readonly #options: Options;
  /** Keys to decide, lowest rank first. */
  readonly #queue: KeyRules[];
  readonly #queued: Set<KeyRules>;
  /** The results so far, by label key. */
  readonly #decided = new Map<string, Fact>();
  readonly #wanted = new Map<string, WantedLabel>();
  readonly #keep = new Map<MarkId, Reason>();
  readonly #conflicts = new Map<string, readonly Matched[]>();
  /** By label. A label on a cycle can be decided more than once; the last result replaces the others. */
  readonly #findings = new Map<string, readonly Finding[]>();
  readonly #outcomes = new Map<string, RuleOutcome>();

  constructor(view: NodeView, rules: LabelRules, options: Options) {
    this.#view = view;
    this.#rules = rules;
    this.#options = options;
    this.#queue = [...rules.untriggered];
    this.#queued = new Set(this.#queue);
  }

  run(triggers: readonly string[]): Evaluation {
    const { frozen } = this.#rules;
    for (const key of triggers) this.#wake(key);
    for (const key of frozen.keys()) this.#wake(key);
    for (const one of this.#traced()) this.#ask(one);
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      this.#queued.delete(next);
      this.#decide(next);
    }
    for (const [key, reason] of frozen) if (!this.#wanted.has(key)) this.#keep.set(`label/${key}`, reason);
    this.#keepWithheld();
    for (const key of [...this.#conflicts.keys()].sort()) this.#reportConflict(key);
    return {
      wanted: this.#wanted,
      keep: this.#keep,
      findings: [...this.#findings.keys()].sort().flatMap((key) => this.#findings.get(key) ?? []),
      outcomes: [...this.#outcomes.values()].sort((a, b) => (a.rule < b.rule ? -1 : 1)),
    };
  }

  /** Labels that the rule of a trace sets: they are evaluated even where nothing wakes them. */
  #traced(): readonly KeyRules[] {
    const { trace } = this.#view;
    if (trace === undefined) return [];
    const isTraced = ({ claims }: KeyRules): boolean => claims.some(({ rule }) => rule.name === trace.rule);
    return [...this.#rules.byKey.values()].filter(isTraced);
  }

  #wake(key: string): void {
    for (const one of this.#rules.byTrigger.get(key) ?? []) this.#ask(one);
  }

  #ask(one: KeyRules): void {
    if (this.#queued.has(one)) return;
    this.#queued.add(one);
    let at = this.#queue.length;
    while (at > 0 && (this.#queue[at - 1]?.rank ?? 0) > one.rank) at -= 1;
    this.#queue.splice(at, 0, one);
  }

  readonly #read: ReadFact = (source, key) => {
    if (source !== "Label") return readNode(this.#view.node, source, key);
    return this.#decided.has(key) ? this.#decided.get(key) : this.#given(key);
  };

  /** The value of the label without the results of this pass. */
  #given(key: string): Fact {
    if (isIgnored(this.#rules, key, this.#options)) return undefined;
    const standing = this.#standing(key);
    if (this.#rules.frozen.has(key)) return standing ?? unknown;
    return isDerived(this.#view, this.#rules, key) ? undefined : standing;
  }

  #standing(key: string): string | undefined {
    return ownValue(this.#view.node.metadata?.labels, key);
  }

  /** Evaluates all rules for one label. On a cycle this can happen again after other labels are decided. */
  #decide(one: KeyRules): void {
    const matched: Matched[] = [];
    const findings: Finding[] = [];
    let silent: Reason | undefined;
    let waits = false;
    for (const claim of one.claims) {
      const value = this.#valueOf(claim, one.id);
      if (value === undefined) continue;
      if (value === unknown) {
        if (claim.rule.withheld === undefined) silent = reasons.RuleUnreadable;
        continue;
      }
      this.#note(claim.rule.name);
      const problem = labelValueProblem(value);
      if (problem !== undefined) findings.push(invalidFinding(one, claim, problem));
      if (claim.rule.withheld !== undefined) {
        if (problem === undefined && this.#standing(one.key) !== value)
          findings.push(withheldFinding(one, claim, value));
        waits ||= problem === undefined && claim.rule.withheld === reasons.ConfirmationRequired;
      } else if (problem === undefined) matched.push({ claim, value });
      else silent ??= reasons.MarkInvalid;
    }
    if (findings.length > 0 || this.#findings.size > 0) this.#findings.set(one.key, findings);
    const before = this.#decided.get(one.key);
    const after = this.#settle(one, matched, silent ?? (waits ? reasons.ConfirmationRequired : undefined));
    this.#decided.set(one.key, after);
    // The label was absent or unknown before and has a value now, so rules that read it may hold.
    if (before !== after && after !== undefined && typeof before !== "string") this.#wake(one.key);
  }

  #valueOf({ rule, cases }: Claim, id: MarkId): Fact {
    const note = this.#view.trace?.for(rule.name, id);
    for (const { when, value } of cases) {
      const truth = when.test(this.#read, note);
      if (truth === undefined) return unknown;
      const fact = truth ? value.of(this.#read) : undefined;
      if (truth)
        note?.({
          what: "its value",
          holds: fact !== undefined,
          ...(typeof fact === "string" && { value: fact }),
        });
      if (fact !== undefined) return fact;
    }
    return undefined;
  }

  /**
   * @param silent why no rule gives a value although one may hold. Example: a rule waits for confirmation. It may
   *   replace a deleted rule, so the present value stays until a person confirms.
   * @returns the value of the label after the next write.
   */
  #settle(one: KeyRules, matched: readonly Matched[], silent: Reason | undefined): Fact {
    const { key, id } = one;
    const [first] = matched;
    const standing = this.#standing(key);
    this.#wanted.delete(key);
    this.#conflicts.delete(key);
    this.#keep.delete(id);
    if (first === undefined) {
      if (silent === undefined) return this.#given(key);
      this.#keep.set(id, silent);
      return silent === reasons.RuleUnreadable ? (this.#given(key) ?? unknown) : standing;
    }
    if (matched.some(({ value }) => value !== first.value)) {
      this.#keep.set(id, reasons.RuleConflict);
      this.#conflicts.set(key, matched);
      return standing;
    }
    if (this.#options.left?.has(key) === true) return standing;
    const overwrite = matched.some(({ claim }) => claim.rule.overwrite);
    this.#wanted.set(key, { rules: one, claim: first.claim, value: first.value, overwrite });
    const stays = standing !== undefined && !overwrite && this.#view.owned.get(id)?.capability !== LABELS;
    return stays ? standing : first.value;
  }

  /** Keeps the marks of withheld rules, also for keys that such a rule no longer names. */
  #keepWithheld(): void {
    const { withheld } = this.#rules;
    if (withheld.size === 0) return;
    for (const [id, recorded] of this.#view.owned) {
      const reason = recorded.capability === LABELS ? withheld.get(recorded.rule) : undefined;
      if (reason !== undefined && !this.#keep.has(id)) this.#keep.set(id, reason);
    }
  }

  #reportConflict(key: string): void {
    const matched = this.#conflicts.get(key) ?? [];
    const standing = this.#standing(key);
    const stays = standing === undefined ? "none is set" : `${JSON.stringify(standing)} stays`;
    const wishes = matched.map(({ claim, value }) => `${claim.rule.name} wants ${JSON.stringify(value)}`);
    const hidden = wishes.length - MAX_NAMED_RULES;
    const named = wishes.slice(0, MAX_NAMED_RULES).join(", ") + (hidden > 0 ? ` and ${hidden} more` : "");
    const finding: Finding = {
      reason: reasons.RuleConflict,
      severity: "info",
      subject: labelId(key),
      message: `${named}: ${stays}`,
    };
    this.#findings.set(key, [...(this.#findings.get(key) ?? []), finding]);
    for (const { claim, value } of matched) {
      const other = matched.find((it) => it.value !== value);
      if (other !== undefined) this.#note(claim.rule.name, other.claim.rule.name);
    }
  }

  #note(rule: string, conflictsWith?: string): void {
    if (this.#outcomes.get(rule)?.conflictsWith !== undefined) return;
    this.#outcomes.set(rule, { rule, ...(conflictsWith !== undefined && { conflictsWith }) });
  }
}

/** The message of a conflict names at most this many rules. */
const MAX_NAMED_RULES = 5;

function invalidFinding({ id }: KeyRules, { rule }: Claim, problem: string): Finding {
  const severity = rule.withheld === undefined ? "warning" : "info";
  return { reason: reasons.MarkInvalid, severity, subject: id, message: `${rule.name}: ${problem}` };
}

function withheldFinding({ id }: KeyRules, { rule }: Claim, value: string): Finding {
  const message = `${rule.name} would set ${JSON.stringify(value)}`;
  return { reason: rule.withheld ?? reasons.DryRun, severity: "info", subject: id, message };
}

interface Matched {
  readonly claim: Claim;
  readonly value: string;
}

/** The references whose fact the node has, as `label/<key>` or `capacity/<name>`. */
export function presentFacts(
  { node }: NodeView,
  refs: readonly FactRef[],
  derived: Evaluation["wanted"],
): readonly string[] {
  const has = ({ source, key }: FactRef): boolean =>
    source === "Label"
      ? derived.has(key) || ownValue(node.metadata?.labels, key) !== undefined
      : readNode(node, source, key) !== undefined;
  return refs
    .filter(has)
    .map(({ source, key }) => `${source.charAt(0).toLowerCase()}${source.slice(1)}/${key}`);
}
