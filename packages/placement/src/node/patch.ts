import type { Node, Taint } from "@berth/kube";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import type { Change } from "./change.ts";
import { type MarkId, ownValue, parseMarkId, taintId } from "./mark.ts";
import { MAX_RECORD_BYTES, type MarkRecord, stringifyRecord } from "./record.ts";
import { MAX_ANNOTATIONS_BYTES } from "./validate.ts";

/**
 * A merge patch of a Node, JSON or strategic: `null` removes a field. With the uid, the patch fails on a new node of the
 * same name. With the resourceVersion, it fails (`conflict`) when the node has changed since the read.
 */
export interface NodePatch {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
  readonly spec?: {
    /** The whole list: the API treats taints as atomic. */
    readonly taints?: readonly Taint[] | null;
    readonly unschedulable?: true | null;
  };
}

/**
 * The patch for some of a plan's changes, including the update of the ownership record.
 *
 * @param base the record before the changes; `undefined` keeps the annotation as it is.
 * @returns `undefined` when nothing would change.
 */
export function buildPatch(
  node: Node,
  base: MarkRecord | undefined,
  changes: readonly Change[],
): NodePatch | undefined {
  const { uid, resourceVersion } = node.metadata ?? {};
  if (uid === undefined || resourceVersion === undefined) return undefined;
  const labels: [string, string | null][] = [];
  const annotations: [string, string | null][] = [];
  const taints = new Map<MarkId, string | null>();
  let unschedulable: true | null | undefined;
  for (const { id, after, action } of changes) {
    if (action === "adopt" || action === "record") continue;
    const place = parseMarkId(id);
    if (place?.kind === "label") labels.push([place.key, after ?? null]);
    else if (place?.kind === "annotation") annotations.push([place.key, after ?? null]);
    else if (place?.kind === "taint") taints.set(id, after ?? null);
    else if (place?.kind === "unschedulable") unschedulable = after === undefined ? null : true;
  }
  const record = recordUpdate(node, base, changes);
  if (record !== undefined) annotations.push([MARKS_ANNOTATION, record]);
  const spec = {
    ...(taints.size > 0 && { taints: mergeTaints(node.spec?.taints ?? [], taints) }),
    ...(unschedulable !== undefined && { unschedulable }),
  };
  const metadata = {
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) }),
    ...(annotations.length > 0 && { annotations: Object.fromEntries(annotations) }),
  };
  const touchesSpec = Object.keys(spec).length > 0;
  if (!touchesSpec && Object.keys(metadata).length === 0) return undefined;
  return { metadata: { uid, resourceVersion, ...metadata }, ...(touchesSpec && { spec }) };
}

/** True when the patch would make the record, or all annotations together, larger than allowed. */
export function exceedsAnnotations(node: Node, patch: NodePatch | undefined): boolean {
  const patched = patch?.metadata.annotations;
  if (patched === undefined) return false;
  const standing = node.metadata?.annotations ?? {};
  const record = patched[MARKS_ANNOTATION] ?? "";
  // A UTF-16 unit takes at most three bytes in UTF-8, so most nodes need no exact count.
  const units = sizeOf(standing, ({ length }) => length) + sizeOf(patched, ({ length }) => length);
  if (3 * units <= MAX_ANNOTATIONS_BYTES && 3 * record.length <= MAX_RECORD_BYTES) return false;
  return (
    sizeOf({ ...standing, ...patched }, bytesOf) > MAX_ANNOTATIONS_BYTES || bytesOf(record) > MAX_RECORD_BYTES
  );
}

function sizeOf(
  annotations: Readonly<Record<string, string | null>>,
  measure: (text: string) => number,
): number {
  let total = 0;
  for (const [key, value] of Object.entries(annotations))
    if (value !== null) total += measure(key) + measure(value);
  return total;
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

/** The annotation to write; `undefined` for no write. Restores a lost annotation even without other changes. */
function recordUpdate(
  node: Node,
  base: MarkRecord | undefined,
  changes: readonly Change[],
): string | null | undefined {
  const text = ownValue(node.metadata?.annotations, MARKS_ANNOTATION);
  const touched = changes.some(({ entry }) => entry !== undefined);
  if (base === undefined || (text !== undefined && !touched)) return undefined;
  const marks = new Map(base.marks);
  for (const { id, entry } of changes) {
    if (entry === null) marks.delete(id);
    else if (entry !== undefined) marks.set(id, entry);
  }
  const next = stringifyRecord({ by: base.by, marks });
  return next === text ? undefined : (next ?? null);
}

/** Keeps foreign taints and the order of all. Taints of Berth change in place or are added at the end. */
function mergeTaints(
  standing: readonly Taint[],
  wanted: ReadonlyMap<MarkId, string | null>,
): readonly Taint[] | null {
  const left = new Map(wanted);
  const merged: Taint[] = [];
  for (const taint of standing) {
    const id = taintId(taint.key, taint.effect);
    const value = wanted.get(id);
    left.delete(id);
    if (value === undefined) merged.push(taint);
    else if (value !== null) {
      const { value: _, ...rest } = taint;
      merged.push({ ...rest, ...(value !== "" && { value }) });
    }
  }
  for (const [id, value] of left) {
    const place = parseMarkId(id);
    if (place?.kind !== "taint" || value === null) continue;
    merged.push({ key: place.key, ...(value !== "" && { value }), effect: place.effect });
  }
  return merged.length === 0 ? null : merged;
}
