import type { KubeObject } from "@berth/kube";

declare const cluster: unique symbol;

/** The name of a cluster. Never empty: make one with `clusterName`. */
export type ClusterName = string & { readonly [cluster]: true };

/**
 * The key of work queues, informer stores and reconcilers. It includes the cluster, so that code written for one
 * cluster also works for many. `namespace` is `""` for cluster-scoped objects.
 */
export interface ObjectKey {
  readonly cluster: ClusterName;
  readonly namespace: string;
  readonly name: string;
}

/** @throws RangeError when the name is empty or holds a `/` (keys are printed as `cluster/namespace/name`). */
export function clusterName(name: string): ClusterName {
  if (name === "" || name.includes("/")) {
    throw new RangeError(`a cluster name must not be empty nor hold a "/", got ${JSON.stringify(name)}`);
  }
  return name as ClusterName;
}

/** The key of an object, as it came from `cluster`. */
export function keyOf(cluster: ClusterName, object: KubeObject): ObjectKey {
  return { cluster, namespace: object.metadata?.namespace ?? "", name: object.metadata?.name ?? "" };
}

/** A text that is equal for equal keys and only for these: names of Kubernetes hold no `/`. */
export function toKeyText(key: ObjectKey): string {
  return `${key.cluster}/${key.namespace}/${key.name}`;
}

/** The key types of a queue. An object that extends `ObjectKey` needs its own `toText`. */
export type QueueKey = ObjectKey | string;

/** The default text of a key, which identifies it in a queue and in messages. */
export function toQueueText(key: QueueKey): string {
  return typeof key === "string" ? key : toKeyText(key);
}
