/** Compiles a `LabelRule` document, from a file or from the cluster, to a rule. */

import { type DocumentFault, durationMs, ruleName, type SourceDocuments, type SourceName } from "@berth/host";
import { type Reason, reasons } from "../api/reasons.ts";
import { silencing } from "../api/warnings.ts";
import type { Instant, RemovalPolicy } from "../node/capability.ts";
import { toTimestamp } from "../node/record.ts";
import { type ConditionFault, compileGroup, type OnFault } from "./condition.ts";
import { isAllowedKey, type LabelOptions } from "./config.ts";
import {
  CONFIRMED_ANNOTATION,
  factKeyProblem,
  type LabelRuleSpec,
  type MatchGroup,
  type ValueFrom,
} from "./document.ts";
import { freeze, type Rule, type RuleSet } from "./rules.ts";
import { compileValue } from "./value.ts";

/** A document whose `spec` has passed the schema. */
export interface LabelRuleDocument {
  readonly name: string;
  readonly spec: LabelRuleSpec;
  /** `metadata.annotations`; one of them may hold the confirmation. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

export interface ParsedDocuments {
  readonly set: RuleSet;
  readonly faults: readonly DocumentFault<Reason>[];
}

/** The documents of one source. */
export interface DocumentSet extends SourceDocuments<LabelRuleDocument> {
  /** Berth has read the whole source. */
  readonly complete: boolean;
  /** See `RuleSet`. */
  readonly unsettled?: NonNullable<RuleSet["unsettled"]>;
}

/**
 * Never throws. A document with a fault is reported and is not in force; the other documents are. Its labels are frozen
 * unless `dryRun` is set. If its `spec` cannot be read, its labels are not known and only its marks stay.
 *
 * @param input `unconfirmed`: names of documents that wait for a confirmation.
 */
export function parseLabelRules(
  input: DocumentSet & { readonly options: LabelOptions; readonly unconfirmed?: ReadonlySet<string> },
): ParsedDocuments {
  const { source, complete, unsettled, documents, unreadable = [], options, unconfirmed } = input;
  const rules: Rule[] = [];
  const faults = unreadable.map(({ name, message }): DocumentFault<Reason> => {
    return { name, source, path: [], reason: reasons.RuleInvalid, message };
  });
  const frozen = new Map<string, Reason>();
  const refused = new Map<string, Reason>(
    unreadable.map(({ name }) => [ruleName(source, name), reasons.RuleInvalid]),
  );
  for (const document of documents) {
    const found: DocumentFault<Reason>[] = [];
    const rule = toRule(source, document, { options, found });
    faults.push(...found);
    const [first] = found;
    if (first !== undefined) {
      refused.set(rule.name, first.reason);
      const keys = rule.withheld === undefined ? rule.outputs.map(({ key }) => key) : [];
      for (const key of keys) freeze(frozen, key, first.reason);
    } else if (unconfirmed?.has(document.name) === true)
      rules.push({ ...rule, withheld: rule.withheld ?? reasons.ConfirmationRequired });
    else rules.push(rule);
  }
  const isAllowed = (key: string): boolean => isAllowedKey(key, options);
  return {
    set: { source, complete, ...(unsettled && { unsettled }), rules, frozen, refused, isAllowed },
    faults,
  };
}

function toRule(
  source: SourceName,
  document: LabelRuleDocument,
  { options, found }: { readonly options: LabelOptions; readonly found: DocumentFault<Reason>[] },
): Rule {
  const { name, spec } = document;
  const report =
    (at: readonly (string | number)[], reason: Reason = reasons.RuleInvalid) =>
    ({ path, message }: ConditionFault) => {
      found.push({ name, source, path: [...at, ...path], reason, message });
    };
  checkKeys(spec.match, report([]), ["match"]);
  const when = compileGroup(spec.match, report(["match"]));
  const outputs = spec.labels.map((output, at) => {
    const { key, valueFrom } = output;
    const path = ["labels", at];
    if (!isAllowedKey(key, options)) {
      const message = `the domain is reserved for Kubernetes; allow ${key} by --allow-reserved to let this rule write it`;
      report(path, reasons.ReservedLabelKey)({ path: ["key"], message });
    }
    if (valueFrom !== undefined) checkKey(valueFrom, report(path), ["valueFrom"]);
    return { key, cases: [{ when, value: compileValue(output, report(path)) }] };
  });
  return {
    name: ruleName(source, name),
    outputs,
    overwrite: spec.overwrite,
    removal: removalOf(document),
    ...(spec.dryRun && { withheld: reasons.DryRun }),
    ...silencing(document),
  };
}

/** Reports keys that no node can have. The schema of the API server cannot detect this mistake. */
function checkKeys(group: MatchGroup, report: OnFault, path: ConditionFault["path"]): void {
  for (const part of ["all", "any"] as const) {
    for (const [at, term] of (group[part] ?? []).entries()) {
      const here = [...path, part, at];
      const { key, source } = term;
      if (key === undefined) checkKeys(term, report, here);
      else checkKey({ source, key }, report, here);
    }
  }
}

function checkKey({ source = "Label", key }: ValueFrom, report: OnFault, path: ConditionFault["path"]): void {
  const problem = factKeyProblem(source, key);
  if (problem !== undefined) report({ path: [...path, "key"], message: `no node can carry it: ${problem}` });
}

function removalOf(document: LabelRuleDocument): RemovalPolicy {
  const { removalDelay, breaker } = document.spec;
  const at = confirmedAt(document);
  return {
    delayMs: durationMs(removalDelay),
    ...(breaker.percent < 100 && { breaker }),
    ...(at !== undefined && { confirmedAt: at }),
  };
}

/** The time at which a person confirmed the current spec; `undefined` without a confirmation or after a later edit. */
export function confirmedAt({ spec, annotations }: LabelRuleDocument): Instant | undefined {
  const confirmed = confirmationOf(annotations);
  // The cost of a digest grows with the spec, and most documents have no confirmation.
  return confirmed !== undefined && confirmed.digest === digestOf(spec) ? confirmed.at : undefined;
}

/** Parses the annotation: `<digest of the spec>@<RFC 3339>`. The caller must compare the digest with the spec. */
export function confirmationOf(
  annotations: LabelRuleDocument["annotations"],
): { readonly digest: string; readonly at: Instant } | undefined {
  const [, digest = "", time = ""] = CONFIRMATION.exec(annotations?.[CONFIRMED_ANNOTATION] ?? "") ?? [];
  const at = Date.parse(time);
  return Number.isNaN(at) ? undefined : { digest, at };
}

const CONFIRMATION = /^([0-9a-f]{16})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))$/;

/** The annotation value that `berth confirm` writes. */
export function confirmation(spec: LabelRuleSpec, now: Instant): string {
  return `${digestOf(spec)}@${toTimestamp(now)}`;
}

/** Detects edits: FNV-1a, 64 bits, over the canonical JSON. It is not a cryptographic hash and proves nothing. */
export function digestOf(spec: LabelRuleSpec): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(canonical(spec))) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, "0");
}

/** JSON with sorted object keys, so that equal documents give equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value).filter(([, it]) => it !== undefined);
  const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([key, it]) => `${JSON.stringify(key)}:${canonical(it)}`).join(",")}}`;
}
