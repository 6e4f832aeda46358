/** Label selectors and node selector terms, by the rules of Kubernetes. Of a map only its own properties are labels. */

import type { Selector } from "@berth/host";
import type { LabelSelector, Node, NodeSelectorRequirement, NodeSelectorTerm } from "@berth/kube";
import { ownValue } from "./mark.ts";
import { labelKeyProblem, labelValueProblem } from "./validate.ts";

type Labels = Readonly<Record<string, string>> | undefined;

/** One requirement, of whichever of the selectors of the API. */
export interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | undefined;
}

/** Selects nothing, whatever the labels: what the API has no word for. */
const NOTHING = "berth.dev/nothing,!berth.dev/nothing";

/**
 * Does a selector hold for these labels, by the rules of `metav1.LabelSelector`? An empty one holds for everything.
 * One that the API server would refuse (another operator, `In` without values) holds for nothing.
 */
export function matchesSelector(selector: Selector | LabelSelector, labels: Labels): boolean {
  return requirementsOf(selector).every((requirement) => matchesLabel(requirement, labels));
}

/** All of which have to hold. */
export function requirementsOf({
  matchLabels = {},
  matchExpressions = [],
}: Selector | LabelSelector): readonly Requirement[] {
  const equal = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: "In", values: [value] }));
  return [...equal, ...matchExpressions];
}

/** What is wrong with a selector, and where. */
export interface SelectorFault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Keys of `matchLabels` that no label can have, which a CRD cannot check. @param path Of the selector itself. */
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

/** Does it ask for nothing? Then it holds for everything. */
export function isEmptySelector(selector: Selector | LabelSelector): boolean {
  return requirementsOf(selector).length === 0;
}

/** `In`, `NotIn`, `Exists`, `DoesNotExist`: apimachinery's `labels.Requirement.Matches`. */
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
 * A selector as the parameter `labelSelector` takes it, `""` for everything. The same text for the same requirements
 * in any order, so that it can name a watch. One that the API server would refuse is made into one that selects
 * nothing, as `matchesSelector` has it.
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
 * Does required node affinity hold for the node? One of the terms has to, all of it; none and empty ones hold for
 * nothing, and neither does a term with a requirement that cannot be read. As `nodeaffinity.NodeSelector` of
 * k8s.io/component-helpers, which scheduler and DaemonSet controller go by.
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

/** Of the fields of a Node only `metadata.name` can be asked for; any other reads as empty. */
function matchesField(
  { key, operator, values = [] }: NodeSelectorRequirement,
  name: string | undefined,
): boolean {
  if (values.length !== 1) return false;
  const field = key === "metadata.name" ? (name ?? "") : "";
  if (operator === "In") return field === values[0];
  return operator === "NotIn" && field !== values[0];
}

/** What `labels.NewRequirement` of apimachinery accepts of label selectors. */
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

/** As `strconv.ParseInt` in base 10 with 64 bits. */
function int64(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^[+-]?[0-9]{1,40}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value === BigInt.asIntN(64, value) ? value : undefined;
}
