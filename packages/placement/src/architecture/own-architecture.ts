/** Reads which node architectures a pod itself requires. Total on any object that a client sends. */
import type { LabelSelector, PodSpec } from "@berth/kube";
import { isEmptySelector, matchesSelector, selectorText } from "../node/selector.ts";
import { field, listField, textField } from "../node/untrusted-json.ts";

type Placement = Pick<PodSpec, "affinity" | "nodeSelector">;

const LABEL = "kubernetes.io/arch";
/** The kubelet sets both on its node. The second one is the former name. */
const LABELS: readonly string[] = [LABEL, "beta.kubernetes.io/arch"];
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

const MAX_TEXT = 300;
/** More than fit into that text; a pod may have thousands. */
const MAX_ALTERNATIVES = 100;

/** The expressions of a node selector term that are about the architecture. */
export function architectureExpressions(term: unknown): NonNullable<LabelSelector["matchExpressions"]> {
  return listField(term, "matchExpressions")
    .filter((expression) => LABELS.includes(textField(expression, "key")))
    .map((expression) => ({
      key: textField(expression, "key"),
      operator: textField(expression, "operator"),
      values: listField(expression, "values").filter((value) => typeof value === "string"),
    }));
}

/** Terms of the required node affinity. Leaves out a term without requirements: it selects no node. */
export function requiredTerms(affinity: unknown): readonly unknown[] {
  return listField(field(field(affinity, "nodeAffinity"), REQUIRED), "nodeSelectorTerms").filter(
    (term) => listField(term, "matchExpressions").length + listField(term, "matchFields").length > 0,
  );
}

/** How many texts Berth compares with one architecture, about. The owner of the pod decides it. */
export function comparisonsOf({ affinity }: Placement): number {
  let count = 1;
  for (const term of requiredTerms(affinity))
    for (const it of listField(term, "matchExpressions")) count += 1 + listField(it, "values").length;
  return count;
}

/** Combines the node selector with each required term, and keeps only architecture requirements. */
function alternativesOf({ affinity, nodeSelector }: Placement): readonly LabelSelector[] {
  const selected = LABELS.filter((label) => field(nodeSelector, label) !== undefined);
  const matchLabels = Object.fromEntries(selected.map((label) => [label, textField(nodeSelector, label)]));
  const terms = requiredTerms(affinity);
  if (terms.length === 0) return [{ matchLabels }];
  return terms.map((term) => ({ matchLabels, matchExpressions: architectureExpressions(term) }));
}

/** Does the pod's own spec allow a node of this architecture? */
export function allowsArchitecture(spec: Placement, architecture: string): boolean {
  // Most pods require nothing.
  if (spec.affinity === undefined && spec.nodeSelector === undefined) return true;
  const labels = Object.fromEntries(LABELS.map((label) => [label, architecture]));
  return alternativesOf(spec).some((selector) => matchesSelector(selector, labels));
}

/**
 * Does the pod state its architecture, for multiarch-tuning-operator? As its `isNodeSelectorConfiguredForArchitecture`
 * (controllers/podplacement/pod_model.go): the former label does not count, a node selector counts with any value, and a
 * term without requirements states none.
 */
export function statesArchitecture({ affinity, nodeSelector }: Placement): boolean {
  if (field(nodeSelector, LABEL) !== undefined) return true;
  const required = field(field(affinity, "nodeAffinity"), REQUIRED);
  const isStated = (term: unknown): boolean =>
    listField(term, "matchExpressions").some((expression) => textField(expression, "key") === LABEL);
  return required !== undefined && listField(required, "nodeSelectorTerms").every(isStated);
}

/** Does at least one alternative require an architecture? */
export function namesArchitecture(spec: Placement): boolean {
  return alternativesOf(spec).some((selector) => !isEmptySelector(selector));
}

/** `kubernetes.io/arch=arm64`; alternatives with `or` between them. Bounded. */
export function ownArchitectureText(spec: Placement): string {
  const alternatives = alternativesOf(spec).slice(0, MAX_ALTERNATIVES).map(selectorText);
  const text = [...new Set(alternatives)].join(" or ");
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 1)}…`;
}
