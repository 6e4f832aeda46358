import { apiVersionOf, type KubeObject, type OwnerReference, type Resource } from "@berth/kube";
import { type ClusterName, keyOf, type ObjectKey } from "./key.ts";
import type { Change } from "./lister.ts";

/** Returns the keys to reconcile because of a change. */
export type Mapper<T extends KubeObject, K = ObjectKey> = (change: Change<T>) => Iterable<K>;

/** The changed object itself. */
export function toSelf(cluster: ClusterName): Mapper<KubeObject> {
  return (change) => [keyOf(cluster, change.object)];
}

/** Which managing owners (`controller: true`) count. */
export interface OwnerMapping {
  readonly cluster: ClusterName;
  /** Kind of the owner, and its API group (`""` for core); the version does not matter, as an object has many. */
  readonly kind: string;
  readonly group: string;
  /** Whether the owner is namespaced: then it is in the namespace of what it owns. Default true. */
  readonly namespaced?: boolean;
}

/**
 * The owners of the changed object, including those before an update. An owner that lost an object must notice, as well
 * as the one that gained it.
 */
export function toOwner(mapping: OwnerMapping): Mapper<KubeObject> {
  const { cluster, namespaced = true } = mapping;
  return (change) => {
    const keys = new Map<string, ObjectKey>();
    for (const object of statesOf(change)) {
      const namespace = namespaced ? (object.metadata?.namespace ?? "") : "";
      for (const owner of object.metadata?.ownerReferences ?? []) {
        if (isWanted(owner, mapping)) keys.set(owner.name, { cluster, namespace, name: owner.name });
      }
    }
    return keys.values();
  };
}

/**
 * What an object that this one manages has in its `ownerReferences`: `toOwner` then leads back to it.
 *
 * @param owner as it came from the server: with a uid. One with a namespace is in that of the object, or the garbage
 *   collector deletes the object.
 */
export function controllerReferenceTo<T extends KubeObject>(resource: Resource<T>, owner: T): OwnerReference {
  const { name = "", uid = "" } = owner.metadata ?? {};
  const { kind } = resource;
  return { apiVersion: apiVersionOf(resource), kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/**
 * Maps the object, and its old state after an update, to keys, each key once. An idle worker takes a key at once, so a
 * duplicate would cause a second reconcile. Keys are compared as plain data.
 */
export function fromStates<T extends KubeObject, K = ObjectKey>(
  map: (object: T) => Iterable<K>,
): Mapper<T, K> {
  return function* (change) {
    const found = new Set<string>();
    for (const object of statesOf(change)) {
      for (const key of map(object)) {
        const text = JSON.stringify(key);
        if (!found.has(text)) yield key;
        found.add(text);
      }
    }
  };
}

function statesOf<T extends KubeObject>(change: Change<T>): readonly T[] {
  return change.type === "updated" ? [change.old, change.object] : [change.object];
}

function isWanted(owner: OwnerReference, { kind, group }: OwnerMapping): boolean {
  const ownerGroup = owner.apiVersion.includes("/") ? owner.apiVersion.split("/", 1)[0] : "";
  return owner.kind === kind && ownerGroup === group && owner.controller === true;
}
