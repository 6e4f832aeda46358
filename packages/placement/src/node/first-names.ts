/** How many nodes a status names. */
export const MAX_FIRST_NODES = 5;

/** The first so many names in order. One look at each, so that a rule of all nodes costs no sorting of them. */
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
