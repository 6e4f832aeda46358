/**
 * Refuses pods that name a held node without tolerating its taint. The scheduler skips pods with `spec.nodeName`, and
 * the API server checks no tolerations on `pods/binding`. Contains the answer and the webhook. Pure and total.
 */
import {
  type AdmissionRules,
  type AdmissionTrace,
  newPods,
  notNamed,
  type ReviewRules,
  sparedNamespaces,
} from "@berth/host";
import type { MatchCondition, Node, Pod } from "@berth/kube";
import type { AdmissionQuestion } from "../node/admission-question.ts";
import { standingValue } from "../node/mark.ts";
import { tolerates } from "../node/tolerations.ts";
import { field, isRecord, listField, textField } from "../node/untrusted-json.ts";
import { enforcedGates } from "./compile.ts";
import type { Gate, Gates } from "./gate.ts";
import { selects } from "./selection.ts";

export interface DirectBindingQuestion extends AdmissionQuestion {
  /** Of the pod. */
  readonly name?: string;
  readonly namespace?: string;
}

/** Reads memory alone. Returns `undefined` for an unknown object, which is never refused. */
export interface DirectBindingObservations {
  node(name: string): Node | undefined;
  /** A pod that has no node yet. */
  pod(namespace: string, name: string): Pod | undefined;
}

export function refusingGates(gates: Gates): readonly Gate[] {
  return enforcedGates(gates)?.gates.filter(({ spec }) => spec.directBinding === "Refuse") ?? [];
}

export function admitDirectBinding(
  gates: Gates,
  question: DirectBindingQuestion,
  observations: DirectBindingObservations,
): { readonly allowed: true } | { readonly allowed: false; readonly message: string } {
  const bound = boundOf(question, observations);
  const node = bound && observations.node(bound.node);
  if (bound === undefined || node === undefined) return { allowed: true };
  for (const gate of refusingGates(gates)) {
    const value = standingValue(node, gate.taintId);
    if (value === undefined || !selects(gate, node)) continue;
    const { key, effect } = gate.spec.taint;
    const tolerations = listField(field(bound.pod, "spec"), "tolerations").filter(isRecord);
    if (tolerates(tolerations, { key, effect, value })) continue;
    const message =
      `the startup gate ${gate.rule} holds the node ${bound.node}, and the pod does not tolerate its taint ` +
      `${key}:${effect}: let the scheduler place the pod, or add the toleration`;
    return { allowed: false, message };
  }
  return { allowed: true };
}

/** The node that the request names, and the pod; `undefined` if there is nothing to decide. */
function boundOf(
  { kind, operation, object, namespace = "", name }: DirectBindingQuestion,
  observations: DirectBindingObservations,
): { readonly node: string; readonly pod: unknown } | undefined {
  if (operation !== "CREATE") return undefined;
  if (kind.kind === "Pod") {
    const node = textField(field(object, "spec"), "nodeName");
    return node === "" || isExempt(object) ? undefined : { node, pod: object };
  }
  if (kind.kind !== "Binding") return undefined;
  const pod = observations.pod(namespace, name ?? textField(field(object, "metadata"), "name"));
  const node = textField(field(object, "target"), "name");
  return pod === undefined || isExempt(pod) ? undefined : { node, pod };
}

/** The kubelet makes mirror pods of pods that already run. The DaemonSet controller checks tolerations itself. */
function isExempt(pod: unknown): boolean {
  const metadata = field(pod, "metadata");
  if (textField(field(metadata, "annotations"), MIRROR) !== "") return true;
  return listField(metadata, "ownerReferences").some(
    (owner) => field(owner, "controller") === true && textField(owner, "kind") === "DaemonSet",
  );
}

const MIRROR = "kubernetes.io/config.mirror";

/** Its objects in the API server. */
export const directBinding: Pick<AdmissionTrace, "name" | "effect"> = {
  name: "direct-binding",
  effect: "validate",
};

/**
 * A validating webhook, so that it sees the tolerations that other webhooks have added. The API server asks only about
 * pods that name a node at creation, and about bindings that the scheduler did not make.
 */
export function directBindingAdmission(observations: DirectBindingObservations): AdmissionRules<Gates> {
  const review = (
    name: string,
    resources: readonly string[],
    matchConditions: readonly MatchCondition[],
  ): ReviewRules<Gates> => ({
    name,
    path: "/validate-direct-binding",
    rule: { ...newPods, resources },
    failurePolicy: ({ spec }) => spec.podFailurePolicy ?? "Ignore",
    when(gates, env) {
      const namespaceSelector = { matchExpressions: [notNamed(sparedNamespaces(env))] };
      const asked = { timeoutSeconds: 2, namespaceSelector, matchConditions };
      return refusingGates(gates).length > 0 ? asked : undefined;
    },
    answer: (gates, request) => admitDirectBinding(gates, request, observations),
  });
  return {
    ...directBinding,
    reviews: [
      review(
        "pods",
        ["pods"],
        [
          { name: "names-node", expression: 'has(object.spec.nodeName) && object.spec.nodeName != ""' },
          {
            name: "not-mirrored",
            expression: `!has(object.metadata.annotations) || !("${MIRROR}" in object.metadata.annotations)`,
          },
        ],
      ),
      review(
        "bindings",
        ["pods/binding", "bindings"],
        [{ name: "not-scheduler", expression: 'request.userInfo.username != "system:kube-scheduler"' }],
      ),
    ],
    texts: {
      asked: "the API server asks Berth about new pods",
      off: "the API server does not ask Berth about pods that name a node, so Berth refuses none",
    },
  };
}
