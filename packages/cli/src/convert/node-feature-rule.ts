/** A NodeFeatureRule of Node Feature Discovery to LabelRules: exactly, or not at all and said so. */
import {
  isProtectedKey,
  type LabelOutput,
  labelKeyProblem,
  labelRuleSpec,
  labelValueProblem,
  type MatchGroup,
  type MatchTerm,
} from "@berth/placement";
import type { Fault } from "../config/fault.ts";
import type { YamlDocument } from "../config/yaml.ts";
import { type Conversion, type ConvertedRule, convertReasons, toObjectName } from "./converted.ts";
import { convertDevice, isDeviceFeature } from "./nfd-devices.ts";
import { type Converted, convertExpression, seenByNfd } from "./nfd-expressions.ts";
import { type ElementLabel, labelOfElement, NFD_DOMAIN } from "./nfd-labels.ts";
import type { NfdExpression, NfdRule, NfdTerm, NodeFeatureRule } from "./nfd-schema.ts";

type Path = readonly PropertyKey[];

/** What is noted while one rule is converted. */
interface Work {
  /** Labels of the rules before it in the same object, by the name that `rule.matched` knows. */
  readonly earlier: ReadonlyMap<string, string>;
  /** Notes what cannot be converted, at this path inside the rule. */
  readonly refuse: (path: Path, message: string) => void;
}

export interface NodeFeatureRuleInput {
  readonly file: string;
  readonly document: NodeFeatureRule;
  readonly yaml: YamlDocument;
}

export function convertNodeFeatureRule({ file, document, yaml }: NodeFeatureRuleInput): Conversion {
  const rules: ConvertedRule[] = [];
  const dropped: { readonly from: string; readonly why: readonly string[] }[] = [];
  const faults: Fault[] = [];
  const earlier = new Map<string, string>();
  for (const [at, rule] of document.spec.rules.entries()) {
    const path = ["spec", "rules", at];
    const from = `${file}:${yaml.positionOf(path).line}: NodeFeatureRule ${document.metadata.name}, rule ${JSON.stringify(rule.name)}`;
    const why: string[] = [];
    const refuse = (inside: Path, message: string): void => {
      const parts = [...path, ...inside];
      why.push(message);
      faults.push({
        file,
        ...yaml.positionOf(parts),
        severity: "error",
        reason: convertReasons.NotConvertible,
        message: `${parts.map(String).join(".")}: ${message}`,
      });
    };
    const name = toObjectName(document.metadata.name, rule.name);
    const converted = convertRule(rule, { earlier, refuse });
    if (converted === undefined) dropped.push({ from, why });
    else {
      rules.push({ name, from, spec: converted, leftOut: why });
      const keys = new Set(converted.labels.map(({ key }) => key));
      for (const label of Object.keys(rule.labels ?? {})) {
        if (keys.has(toLabelKey(label))) earlier.set(label, toLabelKey(label));
      }
    }
  }
  return { rules, dropped, faults };
}

/** @returns nothing when what is left would match other nodes, or set no label. */
function convertRule(rule: NfdRule, work: Work): ConvertedRule["spec"] | undefined {
  refuseOtherOutputs(rule, work);
  const labels = [...convertLabels(rule, work), ...convertTemplate(rule, work)];
  const match = convertMatch(rule, work);
  if (match === undefined) return undefined;
  if (labels.length === 0) {
    work.refuse([], "no label of it can be converted");
    return undefined;
  }
  const spec = { match, labels };
  const parsed = labelRuleSpec.safeParse(spec);
  for (const { path, message } of parsed.error?.issues ?? []) {
    work.refuse([], `the LabelRule is not valid: ${path.map(String).join(".")}: ${message}`);
  }
  return parsed.success ? spec : undefined;
}

const OTHER_OUTPUTS: readonly { readonly field: keyof NfdRule; readonly why: string }[] = [
  { field: "vars", why: "a LabelRule has no variables" },
  { field: "varsTemplate", why: "a LabelRule has no variables" },
  { field: "annotations", why: "a LabelRule sets labels only" },
  { field: "extendedResources", why: "a LabelRule sets labels only" },
  { field: "taints", why: "a LabelRule sets labels only" },
];

function refuseOtherOutputs(rule: NfdRule, { refuse }: Work): void {
  for (const { field, why } of OTHER_OUTPUTS) {
    const value = rule[field];
    if (value !== undefined && Object.keys(value).length > 0) refuse([field], why);
  }
}

/** NFD puts a label without a domain into its own, and denies those of Kubernetes but for two. */
function toLabelKey(name: string): string {
  return name.includes("/") ? name : `${NFD_DOMAIN}/${name}`;
}

const ALLOWED_DOMAIN = /(?:^|\.)(?:feature|profile)\.node\.kubernetes\.io\//;

function convertLabels({ labels = {} }: NfdRule, work: Work): readonly LabelOutput[] {
  return Object.entries(labels).flatMap(([name, value]): readonly LabelOutput[] => {
    const output = value.startsWith("@") ? dynamicLabel(name, value, work) : staticLabel(name, value);
    if (typeof output !== "string") return [output];
    work.refuse(["labels", name], output);
    return [];
  });
}

/** @returns the label, or what is wrong with it. */
function staticLabel(name: string, value: string): LabelOutput | string {
  const key = toLabelKey(name);
  if (isProtectedKey(key) && !ALLOWED_DOMAIN.test(key)) return "NFD itself sets no label in this domain";
  const problem = labelKeyProblem(key) ?? labelValueProblem(value);
  if (problem !== undefined) return problem;
  return value === "true" ? { key } : { key, value };
}

/** `@local.feature.name`: the value of an element. Without the element NFD leaves the label out, as a LabelRule does. */
function dynamicLabel(name: string, value: string, { earlier }: Work): LabelOutput | string {
  const [, feature, element] = /^@([^.]+\.[^.]+)\.(.+)$/.exec(value) ?? [];
  if (feature === undefined || element === undefined) return `${value} names no element of a feature`;
  const from = labelFor(feature, element, earlier);
  if (from.kind === "none") return from.why;
  if (from.kind !== "value") return `the label ${from.key} does not hold the value of ${feature} ${element}`;
  const output = staticLabel(name, "");
  return typeof output === "string" ? output : { key: output.key, valueFrom: { key: from.key } };
}

/** A template without actions is a list of labels; one with them is a program. */
function convertTemplate({ labelsTemplate = "" }: NfdRule, { refuse }: Work): readonly LabelOutput[] {
  if (labelsTemplate.includes("{{")) {
    refuse(["labelsTemplate"], "labels that a Go template makes have no equal in a LabelRule");
    return [];
  }
  const lines = labelsTemplate.split("\n").map((line) => line.trim());
  return lines.flatMap((line): readonly LabelOutput[] => {
    if (line === "") return [];
    const [name = "", ...rest] = line.split("=");
    const output = staticLabel(name, rest.length === 0 ? "true" : rest.join("="));
    if (typeof output !== "string") return [output];
    refuse(["labelsTemplate"], `${line}: ${output}`);
    return [];
  });
}

function convertMatch(rule: NfdRule, work: Work): MatchGroup | undefined {
  const all = convertTerms(rule.matchFeatures ?? [], ["matchFeatures"], work);
  const any = (rule.matchAny ?? []).map(({ matchFeatures }, at) =>
    convertTerms(matchFeatures, ["matchAny", at, "matchFeatures"], work),
  );
  if (all === undefined || any.includes(undefined)) return undefined;
  const alternatives = any.flatMap((terms) => (terms === undefined ? [] : [toOne(terms)]));
  // NFD evaluates a rule without conditions on the nodes that it knows.
  if (all.length === 0 && alternatives.length === 0) return { all: [seenByNfd] };
  return {
    ...(all.length > 0 && { all }),
    ...(alternatives.length > 0 && { any: alternatives }),
  };
}

/** An alternative without conditions holds on every node that NFD knows. */
function toOne(terms: readonly MatchTerm[]): MatchTerm {
  const [only = seenByNfd] = terms;
  return terms.length < 2 ? only : { all: terms };
}

/** Terms that all have to hold; nothing when one of them cannot be converted. */
function convertTerms(given: readonly NfdTerm[], path: Path, work: Work): readonly MatchTerm[] | undefined {
  let failed = false;
  const take = (converted: Converted, at: Path): readonly MatchTerm[] => {
    if (typeof converted !== "string") return converted;
    work.refuse(at, converted);
    failed = true;
    return [];
  };
  const terms = given.flatMap(({ feature, matchExpressions, matchName }, at) => {
    const here = [...path, at];
    if (matchExpressions === undefined && matchName === undefined) {
      return take(`${feature} is compared with nothing`, here);
    }
    return [
      ...(matchExpressions === undefined
        ? []
        : convertExpressions({ feature, matchExpressions }, here, { ...work, take })),
      ...(matchName === undefined
        ? []
        : take(convertName(feature, matchName, work.earlier), [...here, "matchName"])),
    ];
  });
  return failed ? undefined : withoutRepeats(terms);
}

interface TermWork extends Work {
  readonly take: (converted: Converted, at: Path) => readonly MatchTerm[];
}

function convertExpressions(
  { feature, matchExpressions = {} }: NfdTerm,
  path: Path,
  { earlier, take }: TermWork,
): readonly MatchTerm[] {
  const here = [...path, "matchExpressions"];
  const entries = Object.entries(matchExpressions);
  if (isDeviceFeature(feature.toLowerCase()))
    return take(convertDevice(feature.toLowerCase(), matchExpressions), here);
  if (entries.length === 0) return take(`${feature} is compared with nothing`, here);
  return entries.flatMap(([element, expression]) =>
    take(convertExpression(labelFor(feature, element, earlier), expression), [...here, element]),
  );
}

/** Names of elements: each is a label of its own, so only a list of names can be looked for. */
function convertName(
  feature: string,
  expression: NfdExpression,
  earlier: ReadonlyMap<string, string>,
): Converted {
  const { op, value = [] } = expression;
  if (op !== "In" || value.length === 0)
    return `a LabelRule looks for labels by name, so only In is converted`;
  if (isDeviceFeature(feature.toLowerCase())) return `names of attributes of devices are on no label`;
  const terms = value.map((element) =>
    convertExpression(labelFor(feature, element, earlier), { op: "Exists" }),
  );
  const problem = terms.find((it) => typeof it === "string");
  if (typeof problem === "string") return problem;
  const any = terms.flatMap((it) => (typeof it === "string" ? [] : it));
  return any.length === 1 ? any : [{ any }];
}

function labelFor(feature: string, element: string, earlier: ReadonlyMap<string, string>): ElementLabel {
  if (feature.toLowerCase() !== "rule.matched") return labelOfElement(feature, element);
  const key = earlier.get(element);
  if (key !== undefined) return { kind: "value", key };
  return { kind: "none", why: `${element} is no label of an earlier rule of this object that was converted` };
}

function withoutRepeats(terms: readonly MatchTerm[]): readonly MatchTerm[] {
  const seen = new Map(terms.map((term) => [JSON.stringify(term), term]));
  return [...seen.values()];
}
