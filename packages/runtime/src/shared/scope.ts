/** What a scope selects, decided on the object itself, as the API server decides it. */
import type { CollectionScope, KubeObject } from "@berth/kube";

/** A scope as data. Scopes of one text are equal. */
export interface Scope {
  /** Identifies the scope. */
  readonly text: string;
  /** The same for the API server. */
  readonly asked: CollectionScope;
  /** Conditions on labels and fields, by their text. All must hold. `undefined`: only the API server can decide. */
  readonly conditions: ReadonlyMap<string, Condition> | undefined;
}

interface Condition {
  /** A path of the object, or the key of a label. */
  readonly of: "field" | "label";
  readonly path: string;
  /** Absent: any value. */
  readonly values?: ReadonlySet<string>;
  /** The value must be one of `values`. Otherwise it must be none of them, and it may be absent. */
  readonly isIn: boolean;
}

/** The fields whose selectors compare what the object says. The API server computes others, such as `spec.hostNetwork`. */
const FIELDS: ReadonlySet<string> = new Set([
  "metadata.name",
  "metadata.namespace",
  "spec.nodeName",
  "status.phase",
]);

/** Reads the selectors of a scope, as `labelSelector` and `fieldSelector` of a request have them. Total. */
export function scopeOf(asked: CollectionScope): Scope {
  const { namespace = "", labelSelector, fieldSelector } = asked;
  const read = [...split(labelSelector).map(toLabelCondition), ...split(fieldSelector).map(toFieldCondition)];
  const known = read.filter((it) => it !== undefined);
  const isKnown = known.length === read.length;
  const conditions = isKnown ? new Map(known.map((it): [string, Condition] => [textOf(it), it])) : undefined;
  const selectors = conditions ? [...conditions.keys()].sort() : [labelSelector, fieldSelector, "?"];
  return { text: JSON.stringify([namespace, ...selectors]), asked, conditions };
}

/** Whether the scope selects the object. Only for a scope with conditions. */
export function contains({ asked: { namespace }, conditions }: Scope, object: KubeObject): boolean {
  if (namespace && object.metadata?.namespace !== namespace) return false;
  for (const condition of conditions?.values() ?? []) if (!holds(condition, object)) return false;
  return true;
}

/** Whether `wide` selects every object that `narrow` selects. False also where that does not follow from their texts. */
export function includes(wide: Scope, narrow: Scope): boolean {
  if (wide.text === narrow.text) return true;
  if (wide.conditions === undefined || narrow.conditions === undefined) return false;
  if (wide.asked.namespace && wide.asked.namespace !== narrow.asked.namespace) return false;
  const given = narrow.conditions;
  return wide.conditions
    .entries()
    .every(([text, condition]) => given.has(text) || given.values().some((it) => follows(condition, it)));
}

/** A value that is one of some is there, is one of more, and is none of others. */
function follows(wanted: Condition, { of, path, values, isIn }: Condition): boolean {
  if (of !== wanted.of || path !== wanted.path || !isIn || values === undefined) return false;
  if (wanted.values === undefined) return wanted.isIn;
  return wanted.isIn ? values.isSubsetOf(wanted.values) : values.isDisjointFrom(wanted.values);
}

function holds({ of, path, values, isIn }: Condition, object: KubeObject): boolean {
  const value = of === "label" ? labelOf(object, path) : fieldOf(object, path);
  if (value === undefined) return !isIn;
  return (values === undefined || values.has(value)) === isIn;
}

function labelOf({ metadata }: KubeObject, key: string): string | undefined {
  return metadata?.labels !== undefined && Object.hasOwn(metadata.labels, key)
    ? metadata.labels[key]
    : undefined;
}

/** The API server compares an absent field as `""`. */
function fieldOf(object: KubeObject, path: string): string {
  let at: unknown = object;
  for (const step of path.split("."))
    at = typeof at === "object" && at !== null && Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined;
  return typeof at === "string" ? at : "";
}

/** The conditions of a selector: commas within parentheses separate values. */
function split(selector = ""): readonly string[] {
  return (selector.match(/(?:\([^)]*\)|[^,])+/g) ?? []).map((it) => it.trim());
}

const KEY = String.raw`[\w./-]+`;
const LABEL = new RegExp(
  String.raw`^(?:(?<absent>!)\s*)?(?<key>${KEY})(?:\s*(?<sign>==?|!=)\s*(?<value>[\w.-]*)|\s+(?<set>in|notin)\s*\((?<values>[\w., -]*)\))?$`,
);
const FIELD = /^(?<key>[\w.]+)(?<sign>==?|!=)(?<value>[\w.-]*)$/;

function toLabelCondition(text: string): Condition | undefined {
  const { key, absent, sign, value = "", set, values = "" } = LABEL.exec(text)?.groups ?? {};
  if (key === undefined || (absent !== undefined && (sign ?? set) !== undefined)) return undefined;
  const label = { of: "label", path: key } as const;
  if (sign !== undefined) return { ...label, values: new Set([value]), isIn: sign !== "!=" };
  if (set === undefined) return { ...label, isIn: absent === undefined };
  return { ...label, values: new Set(values.split(",").map((it) => it.trim())), isIn: set === "in" };
}

function toFieldCondition(text: string): Condition | undefined {
  const { key, sign, value = "" } = FIELD.exec(text)?.groups ?? {};
  if (key === undefined || !FIELDS.has(key)) return undefined;
  return { of: "field", path: key, values: new Set([value]), isIn: sign !== "!=" };
}

function textOf({ of, path, values, isIn }: Condition): string {
  return JSON.stringify([of, path, isIn, values && [...values].sort()]);
}
