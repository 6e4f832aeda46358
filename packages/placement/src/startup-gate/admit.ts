/**
 * Answers of the startup gate webhooks: JSON patches. Pure and total: a client may send any object. An object that
 * cannot be read passes unchanged.
 */
import type { DaemonSet, JsonPatchOperation, Node, Taint } from "@berth/kube";
import * as z from "zod";
import type { AdmissionQuestion } from "../node/admission-question.ts";
import { absentOr, field, sentText, sentTexts } from "../node/untrusted-json.ts";
import { isGatedAtCreation } from "./selection.ts";
import { additionsTo, type GateList, taintOf } from "./tolerate.ts";

const TAINTS = "/spec/taints";

const taint = z.object({ key: z.string(), effect: z.string(), value: sentText });
const toleration = z.object({ key: sentText, operator: sentText, value: sentText, effect: sentText });

/** The fields that gates read. Berth does not need the others, and knows no more of an object that differs. */
const sentNode = z.object({
  metadata: absentOr(z.object({ labels: sentTexts })),
  spec: absentOr(z.object({ taints: absentOr(z.array(taint)) })),
});
const sentDaemonSet = z.object({
  metadata: absentOr(z.object({ annotations: sentTexts })).catch(undefined),
  spec: z.object({
    template: z.object({ spec: z.object({ tolerations: absentOr(z.array(toleration)) }) }),
  }),
});

/** `/mutate-node`: changes only the creation of a Node. */
export function admitNodeRequest(
  gates: GateList,
  { kind, operation, object }: AdmissionQuestion,
): readonly JsonPatchOperation[] {
  return kind.kind === "Node" && operation === "CREATE" ? admitNode(gates, object) : [];
}

/**
 * Puts on a node the missing taints of all gates that select it. A taint with another value gets the gate's value: the
 * API server refuses a node with two taints of the same key and effect.
 */
export function admitNode({ gates }: GateList, object: unknown): readonly JsonPatchOperation[] {
  const node = sentNode.safeParse(object).data as Node | undefined;
  if (node === undefined) return [];
  const standing = node.spec?.taints ?? [];
  const replaced: JsonPatchOperation[] = [];
  const added: Taint[] = [];
  for (const gate of gates.filter((it) => isGatedAtCreation(it, node))) {
    const taint = taintOf(gate);
    const same = standing.filter(({ key, effect }) => key === taint.key && effect === taint.effect);
    if (same.some(({ value = "" }) => value === taint.value)) continue;
    const [first] = same;
    if (first === undefined) added.push(taint);
    else replaced.push({ op: "replace", path: `${TAINTS}/${standing.indexOf(first)}`, value: taint });
  }
  if (added.length > 0 && standing.length === 0) return [{ op: "add", path: TAINTS, value: added }];
  return [
    ...replaced,
    ...added.map((value): JsonPatchOperation => ({ op: "add", path: `${TAINTS}/-`, value })),
  ];
}

/**
 * `/mutate-daemonset`: lets the pods of a DaemonSet tolerate all gates. It changes an update only if the pod template
 * changes anyway, so that Berth never starts a roll-out here. A client that sends its own template, without Berth's
 * tolerations, does not remove them.
 */
export function admitDaemonSetRequest(
  gates: GateList,
  { kind, operation, object, oldObject }: AdmissionQuestion,
): readonly JsonPatchOperation[] {
  if (kind.kind !== "DaemonSet") return [];
  // The API server writes both templates in the same order of fields.
  const [template, old] = [object, oldObject].map((it) => JSON.stringify(templateOf(it)));
  const isDue = operation === "CREATE" || (operation === "UPDATE" && template !== old);
  const daemonSet = isDue ? (sentDaemonSet.safeParse(object).data as DaemonSet | undefined) : undefined;
  return daemonSet === undefined ? [] : additionsTo(daemonSet, gates);
}

function templateOf(object: unknown): unknown {
  return field(field(object, "spec"), "template");
}
