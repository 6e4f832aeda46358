/**
 * Answers of the startup gate webhooks: JSON patches. Pure and total: a client may send any object. An object that
 * cannot be read passes unchanged.
 */
import type { DaemonSet, JsonPatchOperation, Node, Taint, Toleration } from "@berth/kube";
import type { AdmissionQuestion } from "../node/admission-question.ts";
import { field, isRecord } from "../node/untrusted-json.ts";
import { isGatedAtCreation } from "./selection.ts";
import { additionsTo, type GateList, taintOf } from "./tolerate.ts";

const TAINTS = "/spec/taints";

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
  const node = readNode(object);
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
  const daemonSet = isDue ? readDaemonSet(object) : undefined;
  return daemonSet === undefined ? [] : additionsTo(daemonSet, gates);
}

function templateOf(object: unknown): unknown {
  return field(field(object, "spec"), "template");
}

function readNode(object: unknown): Node | undefined {
  const labels = optional(field(field(object, "metadata"), "labels"), isTextMap, {});
  const taints = optional(field(field(object, "spec"), "taints"), isTaintList, []);
  if (!isRecord(object) || labels === undefined || taints === undefined) return undefined;
  return { metadata: { labels }, spec: { taints } };
}

function readDaemonSet(object: unknown): DaemonSet | undefined {
  const pod = field(templateOf(object), "spec");
  if (!isRecord(pod)) return undefined;
  const tolerations = optional(field(pod, "tolerations"), isTolerationList, []);
  if (tolerations === undefined) return undefined;
  const annotations = optional(field(field(object, "metadata"), "annotations"), isTextMap, undefined);
  return {
    ...(annotations && { metadata: { annotations } }),
    spec: { selector: {}, template: { spec: { containers: [], tolerations } } },
  };
}

function optional<T>(
  value: unknown,
  is: (value: unknown) => value is T,
  absent: T | undefined,
): T | undefined {
  if (value === undefined) return absent;
  return is(value) ? value : undefined;
}

function isTextMap(value: unknown): value is Readonly<Record<string, string>> {
  return isRecord(value) && Object.values(value).every((it) => typeof it === "string");
}

function isTaintList(value: unknown): value is readonly Taint[] {
  return Array.isArray(value) && value.every((it) => hasTexts(it, ["key", "effect"], ["value"]));
}

function isTolerationList(value: unknown): value is readonly Toleration[] {
  const names = ["key", "operator", "value", "effect"];
  return Array.isArray(value) && value.every((it) => hasTexts(it, [], names));
}

function hasTexts(value: unknown, required: readonly string[], allowed: readonly string[]): boolean {
  const isText = (name: string): boolean => typeof field(value, name) === "string";
  return (
    isRecord(value) &&
    required.every(isText) &&
    allowed.every((name) => field(value, name) === undefined || isText(name))
  );
}
