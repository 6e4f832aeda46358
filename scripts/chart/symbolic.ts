/**
 * Finds out what a function of switches prints under which condition, by calling it. Its results become one tree in which
 * each entry has the condition of its presence. So the lists of `berth manifests` are behind the chart too.
 */

/** When something is there: always, never, or by the value of a switch. A reduced decision diagram. */
export type Guard = Diagram<boolean>;
type Diagram<T> = T | Branch<T>;
interface Branch<T> {
  readonly by: string;
  readonly on: Diagram<T>;
  readonly off: Diagram<T>;
}

export interface Entry {
  /** The key in a map; what identifies an item of a list. */
  readonly key: string;
  readonly guard: Guard;
  readonly node: Node;
}

export type Node =
  | { readonly scalar: string | number | boolean | null }
  | { readonly list: readonly Entry[] }
  | { readonly map: readonly Entry[] }
  /** Two values of which each is printed for one value of the switch. */
  | Branch<Node>;

/** Which switches are on. */
export type Setting = ReadonlySet<string>;

/** A value, its entries by key, and what distinguishes it from a value of another kind. */
interface Value {
  readonly kind: string;
  readonly entries: ReadonlyMap<string, Value>;
}

/** A value by setting. `undefined`: what it belongs to is not there. */
type View<T> = (setting: Setting) => T | undefined;

/** @param print is called for many settings, and has to be pure. `undefined`: there is no such setting. */
export function symbolic(
  switches: readonly string[],
  print: (setting: Setting) => readonly object[] | undefined,
): Node {
  const pool = new Map<string, Value>();
  const printed = new Map<string, Value | undefined>();
  const valueAt = remembered((setting) => {
    const key = switches.filter((it) => setting.has(it)).join();
    if (!printed.has(key)) {
      const objects = print(setting);
      printed.set(key, objects && toValue(objects, pool));
    }
    return printed.get(key);
  });
  const flipped = (setting: Setting, one: string): Setting => setting.symmetricDifference(new Set([one]));
  const all = new Set(switches);
  const none = new Set<string>();
  // What depends on two switches shows it beside one of these settings.
  const bases: readonly Setting[] = [
    all,
    none,
    ...switches.flatMap((it) => [flipped(all, it), flipped(none, it)]),
  ];
  const probes = bases.map((base) => ({
    base,
    flips: switches.map((one) => [one, flipped(base, one)] as const),
  }));

  const settings = probes.flatMap(({ base, flips }) => [base, ...flips.map(([, it]) => it)]);

  /** The value by the switches that change it. */
  function decide<T>(view: View<T>): Diagram<T> | undefined {
    const changing = new Set<string>();
    for (const { base, flips } of probes) {
      const before = view(base);
      if (before === undefined) continue;
      for (const [one, setting] of flips) {
        const after = changing.has(one) ? undefined : view(setting);
        if (after !== undefined && after !== before) changing.add(one);
      }
    }
    const by = (left: readonly string[], on: Setting): Diagram<T> | undefined => {
      const [first, ...rest] = left;
      if (first === undefined) {
        const found = bases.map((base) => view(base.difference(changing).union(on)));
        return found.find((it) => it !== undefined);
      }
      return branch(first, by(rest, new Set([...on, first])), by(rest, on));
    };
    return by([...changing], none);
  }

  function nodeOf(given: View<Value>): Node {
    const view = remembered(given);
    const found = new Set(settings.map(view));
    found.delete(undefined);
    const [first, ...more] = found;
    if (first !== undefined && more.length === 0) return constant(first);
    const diagram = decide((setting) => view(setting)?.kind);
    const leaf = (kind: string): Node => {
      const own = remembered((setting) => {
        const value = view(setting);
        return value?.kind === kind ? value : undefined;
      });
      const [value] = bases.flatMap((base) => own(base) ?? []);
      if (kind !== "list" && kind !== "map") return { scalar: JSON.parse(kind) };
      let keys: readonly string[] = value === undefined ? [] : [...value.entries.keys()];
      for (const { entries } of new Set(settings.flatMap((setting) => own(setting) ?? [])))
        keys = supersequence(keys, [...entries.keys()]);
      const entries = keys.map(
        (key): Entry => ({
          key,
          guard: decide((setting) => own(setting)?.entries.has(key)) ?? false,
          node: nodeOf((setting) => own(setting)?.entries.get(key)),
        }),
      );
      return kind === "list" ? { list: entries } : { map: entries };
    };
    const toNode = (it: Diagram<string>): Node =>
      typeof it === "string" ? leaf(it) : { by: it.by, on: toNode(it.on), off: toNode(it.off) };
    return toNode(diagram ?? "null");
  }

  return nodeOf(valueAt);
}

/** Settings are compared as objects: those of `probes` come again and again. */
function remembered<T>(view: View<T>): View<T> {
  const known = new WeakMap<Setting, { readonly value: T | undefined }>();
  return (setting) => {
    const found = known.get(setting) ?? { value: view(setting) };
    known.set(setting, found);
    return found.value;
  };
}

/** What is never looked at may be anything. */
function branch<T>(
  by: string,
  on: Diagram<T> | undefined,
  off: Diagram<T> | undefined,
): Diagram<T> | undefined {
  if (on === undefined || off === undefined) return on ?? off;
  return JSON.stringify(on) === JSON.stringify(off) ? on : { by, on, off };
}

/** Both in their order; what only the second has stands after what precedes it there. */
function supersequence(first: readonly string[], second: readonly string[]): readonly string[] {
  const all = [...first];
  let place = 0;
  for (const key of second) {
    const found = all.indexOf(key);
    if (found < 0) all.splice(place, 0, key);
    place = (found < 0 ? place : found) + 1;
  }
  return all;
}

/** Equal values are one object. */
function toValue(of: unknown, pool: Map<string, Value>): Value {
  const text = JSON.stringify(of);
  const found = pool.get(text) ?? makeValue(of, pool);
  pool.set(text, found);
  return found;
}

function makeValue(of: unknown, pool: Map<string, Value>): Value {
  const entries = new Map<string, Value>();
  if (typeof of !== "object" || of === null) return { kind: JSON.stringify(of), entries };
  for (const [key, it] of Object.entries(of)) {
    let name = Array.isArray(of) ? identityOf(it) : key;
    while (entries.has(name)) name += " ";
    if (it !== undefined) entries.set(name, toValue(it, pool));
  }
  return { kind: Array.isArray(of) ? "list" : "map", entries };
}

function constant({ kind, entries }: Value): Node {
  if (kind !== "list" && kind !== "map") return { scalar: JSON.parse(kind) };
  const all = [...entries].map(([key, value]) => ({ key, guard: true, node: constant(value) }));
  return kind === "list" ? { list: all } : { map: all };
}

/** Rules that differ only in the names of objects are one item, as are objects and items of one name or message. */
function identityOf(item: unknown): string {
  if (typeof item !== "object" || item === null) return String(item);
  const { resourceNames, ...rest } = item as Readonly<Record<string, unknown>>;
  const { kind, metadata, name, message } = item as {
    readonly [key in "kind" | "name" | "message"]?: string;
  } & { readonly metadata?: { readonly name?: string } };
  if (kind !== undefined) return `${kind}/${metadata?.name}`;
  return name ?? message ?? JSON.stringify({ ...rest, named: resourceNames !== undefined });
}
