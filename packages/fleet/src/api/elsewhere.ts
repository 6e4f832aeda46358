/** Objects of the hub and of its projects. What they stand for runs in another cluster, so no cell controller acts on them. */
import type { KubeObject } from "@berth/kube";
import { finalizers, annotations as keys, labels } from "./keys.ts";
import type { Instance } from "./workload.ts";

/** Does the hub place it, or does the federator hold it? A deployment in a cell has neither. */
export function isElsewhere({ metadata }: KubeObject): boolean {
  const { annotations, finalizers: held = [] } = metadata ?? {};
  return annotations?.[keys.placement] !== undefined || held.includes(finalizers.federator);
}

/** Is it a copy or a projection? Templates may have these keys, so an Instance with a finalizer of its own is none. */
export function isReflection({ metadata }: Instance): boolean {
  const { annotations, labels: found, finalizers: held = [] } = metadata ?? {};
  if (held.includes(finalizers.instance)) return false;
  return annotations?.[keys.cellUid] !== undefined || found?.[labels.hubUid] !== undefined;
}
