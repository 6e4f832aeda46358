/** What a rule can know about a node. */

import type { FieldMask } from "@berth/host";
import type { Node } from "@berth/kube";
import { changed, or, type Predicate } from "@berth/runtime";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { markFields, ownValue } from "../node/mark.ts";
import type { FactSource } from "./document.ts";

/** Fields of a Node that a rule of labels can name: all that `FactSource` reaches, whatever the rules are at present. */
export const labelFields: FieldMask = [
  ...markFields,
  "status.capacity",
  "status.allocatable",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.nodeInfo",
];

/**
 * The changes of a Node's status that rules can see. Heartbeats are none: of a condition only type and status count.
 * Labels, annotations and taints are the node writer's own predicate.
 */
export const labelFactsChanged: Predicate<Node> = or<Node>(
  changed((node) => node.status?.capacity),
  changed((node) => node.status?.allocatable),
  changed((node) => node.status?.nodeInfo),
  changed((node) => node.status?.conditions?.map(({ type, status }) => `${type}=${status}`)),
);

/** Names one fact. */
export interface FactRef {
  readonly source: FactSource;
  readonly key: string;
}

/** It cannot be told at present whether the fact is there: the rule that would set the label cannot be read. */
export const unknown: unique symbol = Symbol("unknown");

/** The text of a fact; `undefined` where it is absent. */
export type Fact = string | undefined | typeof unknown;

/** Reads facts of one node, labels as they will stand once the rules before have been carried out. */
export type ReadFact = (source: FactSource, key: string) => Fact;

/**
 * Every fact but labels. Our own record on the node is never one: what we write must not decide what we write. The value of a condition is its status, that of a taint its value (`""` when it has none; of
 * several taints with one key the first, unless the key names the effect: `example.com/gpu:NoSchedule`).
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
    // Fields that the kubelet cannot tell are empty there.
    return typeof value === "string" && value !== "" ? value : undefined;
  }
  const taint = node.spec?.taints?.find((it) => it.key === key || `${it.key}:${it.effect}` === key);
  return taint === undefined ? undefined : (taint.value ?? "");
}
