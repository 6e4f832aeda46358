/** Converts a NodeFeatureRule of Node Feature Discovery (NFD) to LabelRules. Reports every part it cannot convert. */

import type { Fault, YamlDocument } from "@berth/host";
import { isProtectedKey, labelKeyProblem, labelValueProblem } from "../../node/validate.ts";
import { type LabelOutput, labelRuleSpec, type MatchGroup, type MatchTerm } from "../document.ts";
import { type Conversion, type ConvertedRule, convertReasons, inGroups, toObjectName } from "./converted.ts";
import { convertDevice, countLabel, type DeviceWork, isDeviceFeature } from "./nfd-devices.ts";
import { type Converted, convertExpression, type Problem, seenByNfd } from "./nfd-expressions.ts";
import {
  type ElementLabel,
  isDiscovered,
  labelOfElement,
  NFD_DOMAIN,
  type PublishedFact,
} from "./nfd-labels.ts";
import {
  NFD_KIND,
  type NfdExpression,
  type NfdRule,
  type NfdTerm,
  type NodeFeatureRule,
} from "./nfd-schema.ts";
import { onlyTermOf, unroll } from "./nfd-templates.ts";

type Path = readonly PropertyKey[];

/** Context and callbacks for the conversion of one rule. */
interface Work extends DeviceWork {
  readonly note: (text: string) => void;
  /** Label keys of earlier rules in the same object, by the label or variable that `rule.matched` uses. */
  readonly earlier: ReadonlyMap<string, string>;
  /** Records a part that cannot be converted, at this path inside the rule. */
  readonly refuse: (path: Path, problem: Problem) => void;
}

export function convertNodeFeatureRule({
  file,
  document,
  yaml,
}: {
  readonly file: string;
  readonly document: NodeFeatureRule;
  readonly yaml: YamlDocument;
}): Conversion {
  const rules: ConvertedRule[] = [];
  const dropped: { readonly from: string; readonly why: readonly string[] }[] = [];
  const faults: Fault[] = [];
  const earlier = new Map<string, string>();
  const outputs: Outputs = new Map();
  const facts = new Map<string, NfdRule>();
  for (const [at, rule] of document.spec.rules.entries()) {
    const path = ["spec", "rules", at];
    const title = `NodeFeatureRule ${document.metadata.name}, rule ${JSON.stringify(rule.name)}`;
    const from = `${file}:${yaml.positionOf(path).line}: ${title}`;
    const { converted, published, why, place, ...tried } = tryRule(rule, { earlier, outputs });
    const notes = [...tried.notes, ...noteOf(document, converted === undefined ? [] : published)];
    const tell = (fault: Pick<Fault, "severity" | "reason" | "message">, inside: Path): void => {
      const { line, column } = yaml.positionOf([...path, ...inside]);
      faults.push({ file, line, column, ...fault });
    };
    if (why.length > 0) {
      const message = `${title}, ${converted === undefined ? "not converted" : "converted in part"}: ${why.join("; ")}`;
      tell({ severity: "error", reason: convertReasons.NotConvertible, message }, place);
    }
    if (notes.length > 0) {
      const message = `${title}: ${notes.join("; ")}`;
      tell({ severity: "warning", reason: convertReasons.ConvertedWithNote, message }, []);
    }
    if (converted === undefined) {
      dropped.push({ from, why });
      continue;
    }
    const name = toObjectName(document.metadata.name, rule.name);
    rules.push({ name, from, spec: converted, leftOut: why, notes });
    for (const fact of published) facts.set(fact.key, fact.rule);
    const keys = new Set(converted.labels.map(({ key }) => key));
    const readable = [
      ...Object.keys(rule.labels ?? {}).map((label) => [label, toLabelKey(label)] as const),
      ...Object.keys(rule.vars ?? {}).map((name) => [name, toVarKey(name)] as const),
    ];
    for (const [element, key] of readable) if (keys.has(key)) earlier.set(element, key);
  }
  return {
    rules,
    dropped,
    faults,
    features: facts.size === 0 ? [] : [featuresOf(document, [...facts.values()])],
  };
}

/** A NodeFeatureRule beside the original one, so that two conversions never write to the same object. */
function featuresOf({ apiVersion, metadata }: NodeFeatureRule, rules: readonly NfdRule[]): object {
  const { namespace } = metadata;
  const name = featuresName(metadata);
  const place = typeof namespace === "string" ? { name, namespace } : { name };
  return { apiVersion, kind: NFD_KIND, metadata: place, spec: { rules } };
}

function featuresName({ name }: NodeFeatureRule["metadata"]): string {
  return toObjectName(name, "features");
}

function noteOf({ metadata }: NodeFeatureRule, facts: readonly PublishedFact[]): readonly string[] {
  if (facts.length === 0) return [];
  return [
    `it reads labels that NFD publishes with the NodeFeatureRule ${featuresName(metadata)}, which \`berth convert --features\` prints`,
  ];
}

/** Labels that earlier rules of the same object set, by key. */
type Outputs = Map<string, { readonly output: string; readonly rule: string }>;

/** @returns `place`: the path of the first problem, inside the rule. */
function tryRule(rule: NfdRule, { outputs, earlier }: Pick<Work, "earlier"> & { readonly outputs: Outputs }) {
  const problems: Problem[] = [];
  const places: Path[] = [];
  const notes = new Set<string>();
  const refuse: Work["refuse"] = (inside, problem) => {
    places.push(inside);
    problems.push(problem);
  };
  const published: PublishedFact[] = [];
  const converted = convertRule(rule, {
    earlier,
    refuse,
    note: (text) => notes.add(text),
    publish: (fact) => published.push(fact),
  });
  for (const { key, ...rest } of converted?.labels ?? []) {
    const [output, before] = [JSON.stringify(rest), outputs.get(key)];
    if (before === undefined) outputs.set(key, { output, rule: rule.name });
    else if (before.output !== output) {
      notes.add(
        `the rule ${JSON.stringify(before.rule)} sets ${key} to another value: where both match, NFD takes the last rule, and Berth changes nothing and reports both`,
      );
    }
  }
  const [place = []] = places;
  return {
    converted,
    published,
    notes: converted === undefined ? [] : [...notes],
    why: describe(problems),
    place,
  };
}

/** Puts the features without a label first, in one text. */
function describe(problems: readonly Problem[]): readonly string[] {
  const features = problems.flatMap((it) => (typeof it === "string" ? [] : [it.unavailable]));
  const others = problems.filter((it) => typeof it === "string");
  const first = `not available as a label: ${[...new Set(features)].join(", ")}`;
  return [...(features.length === 0 ? [] : [first]), ...new Set(others)];
}

/** @returns `undefined` when the converted parts would match other nodes, or set no label. */
function convertRule(rule: NfdRule, work: Work): ConvertedRule["spec"] | undefined {
  const match = convertMatch(rule, work);
  for (const [field, why] of Object.entries(OTHER_OUTPUTS)) {
    const value = rule[field as keyof typeof OTHER_OUTPUTS];
    if (Object.keys(Object(value)).length > 0) work.refuse([field], `${field}: ${why}`);
  }
  const outputs = [...convertLabels(rule, work), ...convertVars(rule, work), ...convertTemplate(rule, work)];
  if (match === undefined) return undefined;
  const copied = outputs.flatMap(({ valueFrom }) => (valueFrom === undefined ? [] : [valueFrom.key]));
  const read = new Set([...keysOf(match), ...copied]);
  const labels = outputs.filter(({ key }) => !read.has(key));
  for (const { key } of outputs.filter((it) => !labels.includes(it))) {
    work.refuse([], `the rule reads the label ${key} itself: NFD already publishes it`);
  }
  if (labels.length === 0) {
    work.refuse([], "it sets no label that can be converted");
    return undefined;
  }
  const spec = { match, labels };
  const parsed = labelRuleSpec.safeParse(spec);
  for (const { path, message } of parsed.error?.issues ?? []) {
    work.refuse([], `the LabelRule is not valid: ${path.map(String).join(".")}: ${message}`);
  }
  return parsed.success ? spec : undefined;
}

function keysOf({ key, all = [], any = [] }: MatchTerm): readonly string[] {
  return [...(key === undefined ? [] : [key]), ...[...all, ...any].flatMap(keysOf)];
}

const LABELS_ONLY = "a LabelRule sets labels only; keep this part in a NodeFeatureRule";
const OTHER_OUTPUTS = {
  varsTemplate: "a LabelRule has no Go templates",
  annotations: LABELS_ONLY,
  extendedResources: LABELS_ONLY,
  taints: LABELS_ONLY,
} as const;

/** NFD adds its own domain to a label without one. Of the Kubernetes domains it allows only `ALLOWED_DOMAIN`. */
function toLabelKey(name: string): string {
  return name.includes("/") ? name : `${NFD_DOMAIN}/${name}`;
}

function toVarKey(name: string): string {
  return toLabelKey(`vars.${name}`);
}

const ALLOWED_DOMAIN = /(?:^|\.)(?:feature|profile)\.node\.kubernetes\.io\//;

function convertLabels({ labels = {} }: NfdRule, work: Work): readonly LabelOutput[] {
  return Object.entries(labels).flatMap(([name, value]) => {
    return orRefuse(toLabel(name, value, work), ["labels", name], work);
  });
}

/** A variable becomes a label, as later rules can read only that. */
function convertVars({ vars = {} }: NfdRule, work: Work): readonly LabelOutput[] {
  return Object.entries(vars).flatMap(([name, value]) => {
    return orRefuse(staticLabel(toVarKey(name), value), ["vars", name], work);
  });
}

function orRefuse(output: Output, path: Path, { refuse }: Work): readonly LabelOutput[] {
  if ("key" in output) return [output];
  refuse(path, output.problem);
  return [];
}

type Output = LabelOutput | { readonly problem: Problem };

function toLabel(name: string, value: string, work: Work): Output {
  return value.startsWith("@") ? dynamicLabel(name, value, work) : staticLabel(name, value);
}

function staticLabel(name: string, value: string): Output {
  const key = toLabelKey(name);
  if (isProtectedKey(key) && !ALLOWED_DOMAIN.test(key)) {
    return { problem: `label ${name}: NFD itself sets no label in this domain` };
  }
  const problem = labelKeyProblem(key) ?? labelValueProblem(value);
  if (problem !== undefined) return { problem: `label ${name}: ${problem}` };
  return value === "true" ? { key } : { key, value };
}

/** `@local.feature.name`: the value of an element. Without the element neither NFD nor a LabelRule sets the label. */
function dynamicLabel(name: string, value: string, work: Work): Output {
  const [, feature, element] = /^@([^.]+\.[^.]+)\.(.+)$/.exec(value) ?? [];
  if (feature === undefined || element === undefined) {
    return { problem: `label ${name}: ${value} names no element of a feature` };
  }
  const from = labelFor(feature, element, work);
  if (from.kind !== "value") return { problem: { unavailable: `the value of ${feature} ${element}` } };
  const output = staticLabel(name, "");
  return "key" in output ? { key: output.key, valueFrom: { key: from.key } } : output;
}

const COUNT = /^([^={}]+)=\{\{ *len \.([a-z]+\.device) *\}\}$/;

/** Converts a template whose lines are labels: without actions, copied in a loop, or with the number of some devices. */
function convertTemplate(rule: NfdRule, work: Work): readonly LabelOutput[] {
  const lines = unroll(rule.labelsTemplate ?? "", rule)
    .split("\n")
    .map((line) => line.trim());
  const counts = lines.map((line) => countOf(line, rule, work));
  const [action] = /{{.*?}}/.exec(lines.filter((_, at) => counts[at] === undefined).join("\n")) ?? [];
  if (action !== undefined) {
    const problem = `labelsTemplate: a LabelRule has no Go templates: ${action}; keep this part in a NodeFeatureRule`;
    work.refuse(["labelsTemplate"], problem);
    return [];
  }
  return lines.flatMap((line, at) => {
    if (line === "") return [];
    const [name = "", ...rest] = line.split("=");
    const output = counts[at] ?? toLabel(name, rest.length === 0 ? "true" : rest.join("="), work);
    return orRefuse(output, ["labelsTemplate"], work);
  });
}

/** `name={{ len .pci.device }}`: how many devices the condition on this feature finds. */
function countOf(line: string, rule: NfdRule, work: Work): Output | undefined {
  const [, name, feature] = COUNT.exec(line) ?? [];
  const term = onlyTermOf(feature, rule);
  if (name === undefined || term?.matchExpressions === undefined || term.matchName !== undefined)
    return undefined;
  const key = countLabel(term.feature, term.matchExpressions, work);
  const output = staticLabel(name, "");
  return key === undefined || !("key" in output) ? undefined : { key: output.key, valueFrom: { key } };
}

function convertMatch(rule: NfdRule, work: Work): MatchGroup | undefined {
  if (rule.matchFeatures?.length === 0) work.note("matchFeatures is empty: it holds on every node");
  const all = convertTerms(rule.matchFeatures ?? [], ["matchFeatures"], work);
  const any = (rule.matchAny ?? []).map(({ matchFeatures }, at) => {
    if (matchFeatures.length === 0)
      work.note(`matchAny.${at}.matchFeatures is empty: it holds on every node`);
    return convertTerms(matchFeatures, ["matchAny", at, "matchFeatures"], work);
  });
  if (all === undefined || any.includes(undefined)) return undefined;
  const alternatives = any.flatMap((terms) => (terms === undefined ? [] : [toOne(terms)]));
  // In NFD a rule without conditions holds on every node that NFD has labelled.
  if (all.length === 0 && alternatives.length === 0) return { all: [seenByNfd] };
  return {
    ...(all.length > 0 && { all }),
    ...(alternatives.length > 0 && { any: inGroups(alternatives) }),
  };
}

/** Joins the terms of an alternative. Without terms it holds on every node that NFD has labelled. */
function toOne(terms: readonly MatchTerm[]): MatchTerm {
  const [only = seenByNfd] = terms;
  return terms.length < 2 ? only : { all: terms };
}

/** @returns terms that must all hold; `undefined` when one of the given terms cannot be converted. */
function convertTerms(given: readonly NfdTerm[], path: Path, work: Work): readonly MatchTerm[] | undefined {
  const parts = given.flatMap((term, at) => convertTerm(term, [...path, at], work));
  const terms = new Map<string, MatchTerm>();
  let failed = false;
  for (const { converted, path: place } of parts) {
    if ("terms" in converted) for (const term of converted.terms) terms.set(JSON.stringify(term), term);
    else {
      work.refuse(place, converted.problem);
      failed = true;
    }
  }
  return failed ? undefined : [...terms.values()];
}

interface Part {
  readonly converted: Converted;
  readonly path: Path;
}

function convertTerm(
  { feature, matchExpressions, matchName }: NfdTerm,
  path: Path,
  work: Work,
): readonly Part[] {
  const expressions = Object.entries(matchExpressions ?? {});
  if (matchName === undefined && expressions.length === 0) {
    return [{ converted: convertEmpty(feature, matchExpressions !== undefined, work), path }];
  }
  const inside = [...path, "matchExpressions"];
  const isDevice = isDeviceFeature(feature.toLowerCase());
  const parts: Part[] =
    isDevice && matchExpressions !== undefined
      ? [{ converted: convertDevice(feature.toLowerCase(), matchExpressions, work), path: inside }]
      : expressions.map(([element, expression]) => ({
          converted: convertExpression(labelFor(feature, element, work), expression),
          path: [...inside, element],
        }));
  if (matchName === undefined) return parts;
  return [...parts, { converted: convertName(feature, matchName, work), path: [...path, "matchName"] }];
}

/** For NFD a term without comparisons holds if NFD discovers the feature; for a device and `{}`, if a device exists. */
function convertEmpty(feature: string, hasExpressions: boolean, { note }: Work): Converted {
  const isDevice = isDeviceFeature(feature.toLowerCase());
  if ((isDevice && hasExpressions) || !(isDevice || isDiscovered(feature))) {
    return { problem: { unavailable: `${feature} without a comparison` } };
  }
  note(
    `${feature} is compared with nothing, which holds wherever NFD discovers it: this condition is left out`,
  );
  return { terms: [] };
}

/** Converts `matchName`. Each element has its own label, so only a list of names (In) can be converted. */
function convertName(feature: string, { op, value = [] }: NfdExpression, work: Work): Converted {
  if (op !== "In" || value.length === 0) {
    return { problem: `matchName: a LabelRule looks for labels by name, so only In is converted` };
  }
  if (isDeviceFeature(feature.toLowerCase())) {
    return { problem: { unavailable: `names of attributes of ${feature}` } };
  }
  const converted = value.map((element) =>
    convertExpression(labelFor(feature, element, work), { op: "Exists" }),
  );
  const failed = converted.find((it) => "problem" in it);
  if (failed !== undefined) return failed;
  const terms = converted.flatMap((it) => ("terms" in it ? it.terms : []));
  return { terms: terms.length === 1 ? terms : [{ any: inGroups(terms) }] };
}

function labelFor(feature: string, element: string, { earlier, publish }: Work): ElementLabel {
  if (feature.toLowerCase() !== "rule.matched") {
    const label = labelOfElement(feature, element);
    if ("fact" in label && label.fact !== undefined) publish(label.fact);
    return label;
  }
  const key = earlier.get(element);
  if (key !== undefined) return { kind: "value", key };
  return {
    kind: "none",
    element: `rule.matched ${element} (no converted rule before it in the object sets it)`,
  };
}
