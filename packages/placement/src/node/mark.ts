import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";

/** Fields of a Node from which marks are read, and the record of ours: every capability and the writer need them. */
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

/** What a capability wants to stand on a node, and why. */
export interface Mark {
  readonly id: MarkId;
  /** A taint's value may be `""`. `unschedulable` has the value `"true"`. */
  readonly value: string;
  /** `<source>/<name>`, for example `folder/accelerators/edgetpu`: recorded, shown, and asked for before a removal. */
  readonly rule: string;
  /** Why it is wanted, a reason constant. */
  readonly reason: Reason;
  /** What to do with a value that is not ours: replace it, or leave it and report. */
  readonly foreign: "overwrite" | "leave";
  /**
   * Whether an Event tells of its changes. `always`: also when it is set or adopted, by its own reason. `never`: for what
   * only goes with another mark. Default: when it is replaced or removed.
   */
  readonly announce?: "always" | "never";
}

/** A mark id taken apart. `effect` only for taints. */
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

/** Is it a taint or `unschedulable`: what keeps pods from a node? */
export function holdsPods(id: string): id is MarkId {
  return parseMarkId(id)?.kind === "taint" || id === "unschedulable";
}

/** Does the text name a place that can hold a mark? */
export function isMarkId(text: string): text is MarkId {
  return parseMarkId(text) !== undefined;
}

/** The value that stands on the node at this place now; `undefined` when nothing stands there. */
export function standingValue(node: Node, id: MarkId): string | undefined {
  const place = parseMarkId(id);
  if (place === undefined) return undefined;
  if (place.kind === "label") return ownValue(node.metadata?.labels, place.key);
  if (place.kind === "annotation") return ownValue(node.metadata?.annotations, place.key);
  if (place.kind === "unschedulable") return node.spec?.unschedulable === true ? "true" : undefined;
  const taint = node.spec?.taints?.find((it) => it.key === place.key && it.effect === place.effect);
  return taint && (taint.value ?? "");
}

/** Every place of the node that holds something a mark could be, with its value. */
export function* standingMarks(node: Node): Generator<{ readonly id: MarkId; readonly value: string }> {
  for (const [key, value] of Object.entries(node.metadata?.labels ?? {})) yield { id: labelId(key), value };
  for (const [key, value] of Object.entries(node.metadata?.annotations ?? {}))
    yield { id: annotationId(key), value };
  for (const { key, effect, value = "" } of node.spec?.taints ?? [])
    yield { id: taintId(key, effect), value };
  if (node.spec?.unschedulable === true) yield { id: "unschedulable", value: "true" };
}

/** A label may be called `constructor`: never read through to the prototype. */
export function ownValue(map: Readonly<Record<string, string>> | undefined, key: string): string | undefined {
  return map !== undefined && Object.hasOwn(map, key) ? map[key] : undefined;
}
