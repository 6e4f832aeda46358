/** Label selectors and node selector terms, by the rules of Kubernetes. Only own properties of a map are labels. */

import type { Selector } from "@berth/host";
import type { LabelSelector, Node, NodeSelectorRequirement, NodeSelectorTerm } from "@berth/kube";
import type { Note } from "./explain/trace.ts";
import { ownValue } from "./mark.ts";
import { labelKeyProblem, labelValueProblem } from "./validate.ts";

type Labels = Readonly<Record<string, string>> | undefined;

/** One requirement of any kind of selector in the API. */
export interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | undefined;
}

/** Selects nothing. The API has no selector for this, so the text contradicts itself. */
const NOTHING = "berth.dev/nothing,!berth.dev/nothing";

/**
 * True when the selector matches these labels, by the rules of `metav1.LabelSelector`. An empty selector matches
 * everything. A selector that the API server would refuse (another operator, `In` without values) matches nothing.
 */
export function matchesSelector(selector: Selector | LabelSelector, labels: Labels, note?: Note): boolean {
  const { matchLabels, matchExpressions = [] } = selector;
  if (note !== undefined) return noteRequirements(requirementsOf(selector), labels, note);
  // A selector that a user wrote may be long, and the first label that differs decides.
  for (const key in matchLabels) if (ownValue(labels, key) !== matchLabels[key]) return false;
  return matchExpressions.every((requirement) => matchesLabel(requirement, labels));
}

function noteRequirements(requirements: readonly Requirement[], labels: Labels, note: Note): boolean {
  const failed = requirements.filter((requirement) => {
    const value = ownValue(labels, requirement.key);
    const holds = matchesLabel(requirement, labels);
    note({ what: `label ${requirementText(requirement)}`, ...(value !== undefined && { value }), holds });
    return !holds;
  });
  return failed.length === 0;
}

/** The requirements of the selector. All must hold. */
export function requirementsOf({
  matchLabels = {},
  matchExpressions = [],
}: Selector | LabelSelector): readonly Requirement[] {
  const equal = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: "In", values: [value] }));
  return [...equal, ...matchExpressions];
}

export interface SelectorFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Finds invalid keys of `matchLabels`, which a CRD cannot check. @param path path of the selector itself. */
export function selectorFaults(
  { matchLabels = {} }: Selector,
  path: SelectorFault["path"],
): readonly SelectorFault[] {
  return Object.keys(matchLabels).flatMap((key) => {
    const problem = labelKeyProblem(key);
    if (problem === undefined) return [];
    return [{ path: [...path, "matchLabels", key], message: `no label can have this key: ${problem}` }];
  });
}

/** True for a selector without requirements, which matches everything. */
export function isEmptySelector(selector: Selector | LabelSelector): boolean {
  return requirementsOf(selector).length === 0;
}

/** `In`, `NotIn`, `Exists`, `DoesNotExist`, like apimachinery's `labels.Requirement.Matches`. */
function matchesLabel({ key, operator, values = [] }: Requirement, labels: Labels): boolean {
  const value = ownValue(labels, key);
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return values.length > 0 && (value === undefined || !values.includes(value));
    case "Exists":
      return values.length === 0 && value !== undefined;
    case "DoesNotExist":
      return values.length === 0 && value === undefined;
    default:
      return false;
  }
}

/**
 * The selector as text for the parameter `labelSelector`; `""` selects everything. The order of the requirements does
 * not change the text, so it can identify a watch. For a selector that the API server would refuse, the text selects
 * nothing, as in `matchesSelector`.
 */
export function selectorText(selector: Selector | LabelSelector): string {
  const requirements = requirementsOf(selector);
  if (!requirements.every(isValid)) return NOTHING;
  return [...new Set(requirements.map(requirementText))].sort().join(",");
}

function requirementText({ key, operator, values = [] }: Requirement): string {
  const list = `(${[...new Set(values)].sort().join(",")})`;
  switch (operator) {
    case "In":
      return values.length === 1 ? `${key}=${values[0]}` : `${key} in ${list}`;
    case "NotIn":
      return values.length === 1 ? `${key}!=${values[0]}` : `${key} notin ${list}`;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return key;
  }
}

/**
 * True when the node meets required node affinity: all requirements of at least one term. No terms, an empty term, and
 * a term with an invalid requirement match no node. Same as `nodeaffinity.NodeSelector` of k8s.io/component-helpers,
 * which the scheduler and the DaemonSet controller use.
 */
export function matchesNodeSelectorTerms(
  terms: readonly NodeSelectorTerm[] | undefined,
  node: Node,
): boolean {
  return terms?.some((term) => matchesTerm(term, node)) ?? false;
}

function matchesTerm({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm, node: Node): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false;
  return (
    matchExpressions.every((requirement) => matchesNodeLabel(requirement, node.metadata?.labels)) &&
    matchFields.every((requirement) => matchesField(requirement, node.metadata?.name))
  );
}

function matchesNodeLabel(requirement: NodeSelectorRequirement, labels: Labels): boolean {
  const { key, operator, values = [] } = requirement;
  if (operator !== "Gt" && operator !== "Lt")
    return isValid(requirement) && matchesLabel(requirement, labels);
  if (!isWellFormed(requirement) || values.length !== 1) return false;
  const [label, bound] = [int64(ownValue(labels, key)), int64(values[0])];
  if (label === undefined || bound === undefined) return false;
  return operator === "Gt" ? label > bound : label < bound;
}

/** The only supported field of a Node is `metadata.name`. Any other field has the value `""`. */
function matchesField(
  { key, operator, values = [] }: NodeSelectorRequirement,
  name: string | undefined,
): boolean {
  if (values.length !== 1) return false;
  const field = key === "metadata.name" ? (name ?? "") : "";
  if (operator === "In") return field === values[0];
  return operator === "NotIn" && field !== values[0];
}

/** True for a requirement that `labels.NewRequirement` of apimachinery accepts in label selectors. */
function isValid(requirement: Requirement): boolean {
  if (!isWellFormed(requirement)) return false;
  const { operator, values = [] } = requirement;
  if (operator === "In" || operator === "NotIn") return values.length > 0;
  return (operator === "Exists" || operator === "DoesNotExist") && values.length === 0;
}

function isWellFormed({ key, values = [] }: Requirement): boolean {
  return (
    labelKeyProblem(key) === undefined && values.every((value) => labelValueProblem(value) === undefined)
  );
}

/** Same as `strconv.ParseInt` in base 10 with 64 bits. */
function int64(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^[+-]?[0-9]{1,40}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value === BigInt.asIntN(64, value) ? value : undefined;
}
