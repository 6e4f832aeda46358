/** The order in which keys must be decided, and which keys depend on themselves. */
export interface KeyOrder {
  /** The rank of a key is above the ranks of its inputs. Keys that depend on each other have equal ranks. */
  readonly rank: ReadonlyMap<string, number>;
  /** The ranks of keys that depend on themselves, directly or through others. */
  readonly circular: ReadonlySet<number>;
}

/**
 * Tarjan's strongly connected components. It uses no recursion because a chain can be as long as the number of rules. A
 * component is closed after all components that it depends on, so the order of closing is the order of decisions.
 *
 * @param inputsOf for each key that a rule sets, the keys that the rule reads. A key without a rule ends a path.
 */
export function orderKeys(inputsOf: ReadonlyMap<string, readonly string[]>): KeyOrder {
  const rank = new Map<string, number>();
  const circular = new Set<number>();
  const seen = new Map<string, { index: number; low: number; open: boolean }>();
  const open: string[] = [];
  let components = 0;

  const close = (key: string): void => {
    const component: string[] = [];
    for (let member = open.pop(); member !== undefined; member = open.pop()) {
      const state = seen.get(member);
      if (state !== undefined) state.open = false;
      component.push(member);
      if (member === key) break;
    }
    components += 1;
    for (const member of component) rank.set(member, components);
    if (component.length > 1 || inputsOf.get(key)?.includes(key) === true) circular.add(components);
  };

  const visit = (start: string): void => {
    const path: { key: string; inputs: readonly string[]; next: number }[] = [];
    const enter = (key: string): void => {
      seen.set(key, { index: seen.size, low: seen.size, open: true });
      open.push(key);
      path.push({ key, inputs: inputsOf.get(key) ?? [], next: 0 });
    };
    enter(start);
    for (let at = path.at(-1); at !== undefined; at = path.at(-1)) {
      const state = seen.get(at.key);
      if (state === undefined) return;
      const input = at.inputs[at.next];
      at.next += 1;
      if (input === undefined) {
        path.pop();
        if (state.low === state.index) close(at.key);
        const parent = seen.get(path.at(-1)?.key ?? at.key);
        if (parent !== undefined) parent.low = Math.min(parent.low, state.low);
      } else if (inputsOf.has(input)) {
        const known = seen.get(input);
        if (known === undefined) enter(input);
        else if (known.open) state.low = Math.min(state.low, known.index);
      }
    }
  };

  for (const key of inputsOf.keys()) if (!seen.has(key)) visit(key);
  return { rank, circular };
}
