/** What a pod itself requires of the architecture of its node. Total on whatever a client sent. */
import type { LabelSelector, PodSpec } from "@berth/kube";
import { isEmptySelector, matchesSelector, selectorText } from "../node/selector.ts";
import { field, listField, textField } from "../node/untrusted-json.ts";

type Placement = Pick<PodSpec, "affinity" | "nodeSelector">;

/** The kubelet sets both on its node. The second one is the former name. */
const LABELS: readonly string[] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];

const MAX_TEXT = 300;
/** More than fit into that text; a pod may have thousands. */
const MAX_ALTERNATIVES = 100;

/** Of the expressions of a node selector term those about the architecture. */
export function architectureExpressions(term: unknown): NonNullable<LabelSelector["matchExpressions"]> {
  return listField(term, "matchExpressions")
    .filter((expression) => LABELS.includes(textField(expression, "key")))
    .map((expression) => ({
      key: textField(expression, "key"),
      operator: textField(expression, "operator"),
      values: listField(expression, "values").filter((value) => typeof value === "string"),
    }));
}

/** Of its required node affinity. A term without requirements selects no node and is left out. */
export function requiredTerms(affinity: unknown): readonly unknown[] {
  const required = field(field(affinity, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution");
  return listField(required, "nodeSelectorTerms").filter(
    (term) => listField(term, "matchExpressions").length + listField(term, "matchFields").length > 0,
  );
}

/** Alternatives: its node selector with each of these terms, as far as they are about the architecture. */
function alternativesOf({ affinity, nodeSelector }: Placement): readonly LabelSelector[] {
  const selected = LABELS.map((label) => [label, textField(nodeSelector, label)] as const);
  const matchLabels = Object.fromEntries(selected.filter(([, value]) => value !== ""));
  const terms = requiredTerms(affinity);
  if (terms.length === 0) return [{ matchLabels }];
  return terms.map((term) => ({ matchLabels, matchExpressions: architectureExpressions(term) }));
}

/** Could the pod go to a node of this architecture, as far as it says itself? */
export function allowsArchitecture(spec: Placement, architecture: string): boolean {
  // Almost all pods say nothing.
  if (spec.affinity === undefined && spec.nodeSelector === undefined) return true;
  const labels = Object.fromEntries(LABELS.map((label) => [label, architecture]));
  return alternativesOf(spec).some((selector) => matchesSelector(selector, labels));
}

/**
 * Does the pod say in each alternative which architecture it requires? As `isNodeSelectorConfiguredForArchitecture` of
 * multiarch-tuning-operator (controller/podplacement/pod_model.go), which leaves such pods alone.
 */
export function statesArchitecture(spec: Placement): boolean {
  return alternativesOf(spec).every((selector) => !isEmptySelector(selector));
}

/** Does it say so in some alternative? */
export function namesArchitecture(spec: Placement): boolean {
  return alternativesOf(spec).some((selector) => !isEmptySelector(selector));
}

/** `kubernetes.io/arch=arm64`; alternatives with `or` between them. Bounded. */
export function ownArchitectureText(spec: Placement): string {
  const alternatives = alternativesOf(spec).slice(0, MAX_ALTERNATIVES).map(selectorText);
  const text = [...new Set(alternatives)].join(" or ");
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 1)}…`;
}
