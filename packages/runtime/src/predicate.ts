import type { KubeObject } from "@berth/kube";
import type { Change } from "./lister.ts";

/**
 * Which changes are worth a reconcile. Only an optimization: a reconcile of an unchanged object must do nothing. The
 * predicates here compare an update's two states, and let every `added` and `deleted` pass.
 */
export type Predicate<T extends KubeObject = KubeObject> = (change: Change<T>) => boolean;

/**
 * The selected part differs between the two states. Parts are compared deeply, as plain data. A part that is the same
 * object in both costs nothing, so select the field rather than a copy of it.
 */
export function changed<T extends KubeObject>(select: (object: T) => unknown): Predicate<T> {
  return (change) => change.type !== "updated" || !isSameData(select(change.old), select(change.object));
}

/** The labels differ. */
export const labelsChanged: Predicate = changed((object) => object.metadata?.labels);

/**
 * `metadata.generation` differs: the server increments it for changes of the spec and for the start of a deletion. True
 * for objects without a generation (Nodes, ConfigMaps and others), because their changes are unknown.
 */
export const generationChanged: Predicate = (change) =>
  change.type !== "updated" ||
  change.object.metadata?.generation === undefined ||
  change.old.metadata?.generation !== change.object.metadata.generation;

/** All of them. With none: every change. */
export function and<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.every((predicate) => predicate(change));
}

/** Any of them. With none: no change. */
export function or<T extends KubeObject>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.some((predicate) => predicate(change));
}

/** The opposite, for `added` and `deleted` too: `not(labelsChanged)` lets neither pass. */
export function not<T extends KubeObject>(predicate: Predicate<T>): Predicate<T> {
  return (change) => !predicate(change);
}

/** Equal as JSON: the order of an object's keys does not matter, and `undefined` is the same as absent. */
export function isSameData(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) return Array.isArray(a) && Array.isArray(b) && isSameList(a, b);
  return isSameRecord(a as Readonly<Record<string, unknown>>, b as Readonly<Record<string, unknown>>);
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => isSameData(item, b[index]));
}

function isSameRecord(a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>): boolean {
  for (const key in a) {
    if (!isSameData(a[key], Object.hasOwn(b, key) ? b[key] : undefined)) return false;
  }
  for (const key in b) {
    if (b[key] !== undefined && !Object.hasOwn(a, key)) return false;
  }
  return true;
}
