/** The facts about a node that a rule can read. */

import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import { changed, or, type Predicate } from "@berth/runtime";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { markFields, ownValue } from "../node/mark.ts";
import type { FactSource } from "./document.ts";

/** The fields of a Node that any label rule could read. They do not depend on the present rules. */
export const labelFields: FieldMask = [
  ...markFields,
  "status.capacity",
  "status.allocatable",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.nodeInfo",
];

/**
 * True for a change of the Node status that rules can see. Of a condition only type and status count, so a heartbeat is
 * no change. The predicate of the node writer covers labels, annotations and taints.
 */
export const labelFactsChanged: Predicate<Node> = or<Node>(
  changed((node) => node.status?.capacity),
  changed((node) => node.status?.allocatable),
  changed((node) => node.status?.nodeInfo),
  changed((node) => node.status?.conditions?.map(({ type, status }) => `${type}=${status}`)),
);

export interface FactRef {
  readonly source: FactSource;
  readonly key: string;
}

/** The value of a label whose rule cannot be read: Berth does not know whether the node should have the label. */
export const unknown: unique symbol = Symbol("unknown");

/** The text of a fact; `undefined` where it is absent. */
export type Fact = string | undefined | typeof unknown;

/** Reads facts of one node. Labels have the values that the rules decided so far will set. */
export type ReadFact = (source: FactSource, key: string) => Fact;

/**
 * Reads any fact except labels. The record that Berth writes is no fact: it must not affect later decisions. The value
 * of a condition is its status; of a taint without one, `""`. `key` can name the effect: `example.com/gpu:NoSchedule`.
 */
export function readNode(node: Node, source: Exclude<FactSource, "Label">, key: string): string | undefined {
  if (source === "Annotation" && key === MARKS_ANNOTATION) return undefined;
  if (source === "Annotation") return ownValue(node.metadata?.annotations, key);
  if (source === "Capacity") return ownValue(node.status?.capacity, key);
  if (source === "Allocatable") return ownValue(node.status?.allocatable, key);
  if (source === "Condition") return node.status?.conditions?.find(({ type }) => type === key)?.status;
  if (source === "NodeInfo") {
    const info = node.status?.nodeInfo as Readonly<Record<string, unknown>> | undefined;
    const value = info !== undefined && Object.hasOwn(info, key) ? info[key] : undefined;
    // The kubelet leaves a field empty when it cannot find the value.
    return typeof value === "string" && value !== "" ? value : undefined;
  }
  const taint = node.spec?.taints?.find((it) => it.key === key || `${it.key}:${it.effect}` === key);
  return taint === undefined ? undefined : (taint.value ?? "");
}
