import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";

/** The fields of a Node with marks and the record of Berth. Every capability and the node writer need them. */
export const markFields: FieldMask = [
  "metadata.labels",
  "metadata.annotations",
  "metadata.deletionTimestamp",
  "spec.taints",
  "spec.unschedulable",
];

/**
 * Names one place on a node that can hold a mark: `label/<key>`, `annotation/<key>`, `taint/<key>:<effect>` or
 * `unschedulable`. Also the key under which the mark is recorded on the node.
 */
export type MarkId =
  | `label/${string}`
  | `annotation/${string}`
  | `taint/${string}:${string}`
  | "unschedulable";

/** A value that a capability wants on a node, with the reason. */
export interface Mark {
  readonly id: MarkId;
  /** A taint's value may be `""`. `unschedulable` has the value `"true"`. */
  readonly value: string;
  /** `<source>/<name>`, for example `folder/accelerators/edgetpu`. It is in the record and decides later removals. */
  readonly rule: string;
  /** Why the mark is wanted. */
  readonly reason: Reason;
  /** What Berth does with a value that it did not set: replace it, or keep it and report. */
  readonly foreign: "overwrite" | "leave";
  /**
   * When Berth sends an Event. `always`: also when the mark is set or adopted, with its own reason. `never`: for a mark
   * that only accompanies another one. Default: when a value is replaced or removed.
   */
  readonly announce?: "always" | "never";
}

/** A parsed mark id. */
export type MarkPlace =
  | { readonly kind: "label"; readonly key: string }
  | { readonly kind: "annotation"; readonly key: string }
  | { readonly kind: "taint"; readonly key: string; readonly effect: string }
  | { readonly kind: "unschedulable"; readonly key: "" };

export function labelId(key: string): MarkId {
  return `label/${key}`;
}

export function annotationId(key: string): MarkId {
  return `annotation/${key}`;
}

export function taintId(key: string, effect: string): MarkId {
  return `taint/${key}:${effect}`;
}

/** @returns `undefined` when the text names no place that can hold a mark. */
export function parseMarkId(text: string): MarkPlace | undefined {
  if (text === "unschedulable") return { kind: "unschedulable", key: "" };
  const slash = text.indexOf("/");
  const kind = text.slice(0, slash);
  const rest = text.slice(slash + 1);
  if (slash < 0 || rest === "") return undefined;
  if (kind === "label") return { kind, key: rest };
  if (kind === "annotation") return { kind, key: rest };
  const colon = rest.lastIndexOf(":");
  if (kind !== "taint" || colon <= 0) return undefined;
  return { kind, key: rest.slice(0, colon), effect: rest.slice(colon + 1) };
}

/** True for a taint and for `unschedulable`, which keep pods away from a node. */
export function holdsPods(id: string): id is MarkId {
  return parseMarkId(id)?.kind === "taint" || id === "unschedulable";
}

/** True when the text names a place that can hold a mark. */
export function isMarkId(text: string): text is MarkId {
  return parseMarkId(text) !== undefined;
}

/** The present value at this place of the node; `undefined` without one. */
export function standingValue(node: Node, id: MarkId): string | undefined {
  const place = parseMarkId(id);
  if (place === undefined) return undefined;
  if (place.kind === "label") return ownValue(node.metadata?.labels, place.key);
  if (place.kind === "annotation") return ownValue(node.metadata?.annotations, place.key);
  if (place.kind === "unschedulable") return node.spec?.unschedulable === true ? "true" : undefined;
  const taint = node.spec?.taints?.find((it) => it.key === place.key && it.effect === place.effect);
  return taint && (taint.value ?? "");
}

/** Every label, annotation, taint and cordon of the node, with its value. */
export function* standingMarks(node: Node): Generator<{ readonly id: MarkId; readonly value: string }> {
  for (const [key, value] of Object.entries(node.metadata?.labels ?? {})) yield { id: labelId(key), value };
  for (const [key, value] of Object.entries(node.metadata?.annotations ?? {}))
    yield { id: annotationId(key), value };
  for (const { key, effect, value = "" } of node.spec?.taints ?? [])
    yield { id: taintId(key, effect), value };
  if (node.spec?.unschedulable === true) yield { id: "unschedulable", value: "true" };
}

/** Reads only own properties, because a label can have a name such as `constructor`. */
export function ownValue(map: Readonly<Record<string, string>> | undefined, key: string): string | undefined {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}
