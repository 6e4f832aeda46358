/** Pieces of CEL for the policies that `berth manifests` prints. */

/** The object after and before the request. A creation (see `isPool`) and a deletion (see owners) have only one. */
export const NOW = "variables.now";
export const BEFORE = "variables.before";

/** Fields of a container that the API server fills in. */
export const CONTAINER_DEFAULTS: readonly string[] = [
  "imagePullPolicy",
  "terminationMessagePath",
  "terminationMessagePolicy",
];

/** JSON is valid CEL, except that the values of a CEL map have one type: hence `dyn`. */
export function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, it]) => `${literal(key)}: dyn(${literal(it)})`);
  return `{${entries.join(", ")}}`;
}

export function field(of: string, path: string): string {
  return `${of}.?${path.replaceAll(".", ".?")}`;
}

export function list(of: string, path: string): string {
  return `${field(of, path)}.orValue([])`;
}

export const and = (...all: readonly string[]): string => `(${all.join(" && ")})`;
export const or = (...all: readonly string[]): string => `(${all.join(" || ")})`;

/** The map has no other keys. */
export function only(map: string, keys: readonly string[]): string {
  return `${map}.all(k, k in ${literal(keys)})`;
}

/** @param holds `item, expression`. An absent list has no items. */
export function each(of: string, path: string, holds: string): string {
  return `${list(of, path)}.all(${holds})`;
}

/** An absent field is the empty text. */
export function isOneOf(of: string, path: string, values: readonly unknown[]): string {
  return `${field(of, path)}.orValue("") in [${values.map((it) => `dyn(${literal(it)})`).join(", ")}]`;
}
