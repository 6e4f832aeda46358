/** Formats numbers, names and times for sentences. */

/** Most names in one line, and most remarks in one list. */
const MOST_NAMED = 5;
export const MOST_LISTED = 20;

/** `1 node`, `2 nodes`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** `a, b, c, d, e, …` */
export function firstOf(names: readonly string[]): string {
  return `${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? ", …" : ""}`;
}

/** `2 (a, b)`: the number of names, and the first of them. */
export function countedNames(names: readonly string[]): string {
  return `${names.length} (${firstOf(names)})`;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** Two units at most, as kubectl has it: `3s`, `5m10s`, `2h`, `4d3h`. Less than a second is `0s`. */
export function formatAge(ms: number): string {
  let left = Math.max(0, ms);
  const parts: string[] = [];
  for (const [unit, unitMs] of UNITS) {
    const amount = Math.floor(left / unitMs);
    left -= amount * unitMs;
    if (amount > 0) parts.push(`${amount}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.length === 0 ? "0s" : parts.join("");
}
