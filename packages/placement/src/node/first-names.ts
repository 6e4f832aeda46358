/** A status names at most this many nodes. */
export const MAX_FIRST_NODES = 5;

/** The first `most` names in order. It reads each name once and does not sort all names, which could be many. */
export function firstOf(names: Iterable<string>, most: number): readonly string[] {
  const first: string[] = [];
  for (const name of names) {
    if (first.length === most && name >= (first.at(-1) ?? "")) continue;
    first.push(name);
    first.sort();
    if (first.length > most) first.pop();
  }
  return first;
}
