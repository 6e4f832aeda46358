import type { Change } from "./change.ts";

/**
 * Which parts of a refused write to send next, so that one bad mark stops nobody: first each capability alone, then
 * halves of what one capability wants, down to the single mark. Empty: this is the offender and cannot be split.
 */
export function splitRefused(changes: readonly Change[]): readonly (readonly Change[])[] {
  const byCapability = Map.groupBy(changes, ({ capability }) => capability);
  if (byCapability.size > 1) {
    return [...byCapability].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, part]) => part);
  }
  if (changes.length < 2) return [];
  const half = Math.ceil(changes.length / 2);
  return [changes.slice(0, half), changes.slice(half)];
}
