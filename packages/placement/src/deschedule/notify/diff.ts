/** Compares two versions of a Node by the keys of a notifier, and merges successive changes. Pure. */
import type { Node } from "@berth/kube";
import { MARKS_ANNOTATION } from "../../api/keys.ts";
import { ownValue } from "../../node/mark.ts";
import { EACH_KEY } from "./document.ts";

const fields = ["labels", "annotations"] as const;

/** The values of one key. `undefined`: the Node does not have the key. */
interface KeyChange {
  readonly field: (typeof fields)[number];
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** By field and key. */
export type NodeChange = ReadonlyMap<string, KeyChange>;

/** The JSON that a notifier sends. */
export interface ChangeMessage {
  readonly node: string;
  readonly labelsAdded: Record<string, string>;
  readonly labelsDeleted: string[];
  readonly labelsUpdated: Record<string, string>;
  readonly annotationsAdded: Record<string, string>;
  readonly annotationsDeleted: string[];
  readonly annotationsUpdated: Record<string, string>;
}

/**
 * Which keys a notifier is about. A domain does not cover its subdomains. The record of Berth's own marks has to be
 * named exactly, because it changes with each mark.
 */
export function keyMatcher(keys: readonly string[]): (key: string) => boolean {
  const given = new Set(keys);
  const isOfDomain = (key: string): boolean =>
    key !== MARKS_ANNOTATION && given.has(key.slice(0, Math.max(0, key.indexOf("/"))) + EACH_KEY);
  return (key) => given.has(key) || isOfDomain(key);
}

export function diffOf(old: Node, now: Node, isWanted: (key: string) => boolean): NodeChange {
  const change = new Map<string, KeyChange>();
  for (const field of fields) {
    const [was, is] = [old.metadata?.[field], now.metadata?.[field]];
    for (const key of Object.keys({ ...was, ...is })) {
      const [before, after] = [ownValue(was, key), ownValue(is, key)];
      if (before !== after && isWanted(key)) change.set(`${field}/${key}`, { field, key, before, after });
    }
  }
  return change;
}

/**
 * Both changes as one. A key that has its first value again is left out.
 * @param isMaybeSent the receiver may know the earlier change, so such a key stays, with its present value.
 */
export function mergeChanges(earlier: NodeChange, later: NodeChange, isMaybeSent: boolean): NodeChange {
  const merged = new Map(earlier);
  for (const [id, next] of later) {
    const { before } = earlier.get(id) ?? next;
    if (before === next.after && !isMaybeSent) merged.delete(id);
    else merged.set(id, { ...next, before });
  }
  return merged;
}

export function toMessage(node: string, change: NodeChange): ChangeMessage {
  const labels = { labelsAdded: {}, labelsDeleted: [], labelsUpdated: {} };
  const annotations = { annotationsAdded: {}, annotationsDeleted: [], annotationsUpdated: {} };
  const message: ChangeMessage = { node, ...labels, ...annotations };
  for (const { field, key, before, after } of change.values()) {
    const how = before === undefined ? "Added" : "Updated";
    if (after === undefined) message[`${field}Deleted`].push(key);
    else message[`${field}${how}` as const][key] = after;
  }
  return message;
}
