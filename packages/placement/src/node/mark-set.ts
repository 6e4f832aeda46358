import type { MarkId } from "./mark.ts";

/** A set of mark ids, given as single ids and as prefixes (`annotation/ate.dev/claim.`). */
export interface MarkSet {
  readonly ids: ReadonlySet<string>;
  /** Prefixes of whole ids, so `taint/supported-arch:` means that taint with any effect. */
  readonly prefixes: readonly string[];
}

export const noMarks: MarkSet = Object.freeze({ ids: new Set<string>(), prefixes: Object.freeze([]) });

export function holdsMark(set: MarkSet, id: MarkId): boolean {
  return set.ids.has(id) || set.prefixes.some((prefix) => id.startsWith(prefix));
}

export function isEmptyMarkSet(set: MarkSet): boolean {
  return set.ids.size === 0 && set.prefixes.length === 0;
}
