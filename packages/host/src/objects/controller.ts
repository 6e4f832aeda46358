/** A controller of objects of one kind: what is decided about each of them is carried out. */
import type { KubeObject, Resource } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Controller,
  type ControllerOptions,
  createController,
  type Informer,
  type Lister,
  type ObjectKey,
  type Reconcile,
  toKeyText,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { CarryOut, type CarryOutOptions, earliest, type Finding } from "./carry-out.ts";
import type { Intent } from "./intent.ts";

/** What an object needs. Nothing in it: settled. */
export interface ObjectDecision {
  /** Carried out in order. What follows on one object waits for the version that the first has made. */
  readonly intents?: readonly Intent[];
  /** Told as Events, each once for its reason and what it is about. */
  readonly findings?: readonly Finding[];
  readonly recheckAfterMs?: number | undefined;
}

/** How objects of one kind are decided about. `P` is what is remembered of one from look to look; a restart loses it. */
export interface ObjectRules<T extends KubeObject, P = unknown, D extends ObjectDecision = ObjectDecision>
  extends Omit<CarryOutOptions<T>, "client" | "clock" | "events"> {
  readonly resource: Resource<T>;
  /** @param past changed in place; empty at first. @returns `undefined`: it cannot be told yet, or there is nothing to say. */
  decide(object: T, past: Partial<P>, key: ObjectKey): D | undefined;
  /** What was found, on each look. */
  decided?(object: T, decision: D): void;
  /** There is no such object, or no longer. */
  gone?(key: ObjectKey): void;
}

export interface ObjectReconcilerOptions<T extends KubeObject, P, D extends ObjectDecision>
  extends ObjectRules<T, P, D>,
    Pick<CarryOutOptions, "client" | "events"> {
  readonly objects: Pick<Lister<T>, "get">;
  readonly clock: Clock;
}

/** Level-based: what each object lacks now. Memory is as large as the number of objects, and goes with them. */
export function createObjectReconciler<T extends KubeObject, P, D extends ObjectDecision>(
  options: ObjectReconcilerOptions<T, P, D>,
): Reconcile<ObjectKey> {
  const { objects, resource } = options;
  const carryOut = new CarryOut(options);
  const pasts = new Map<string, { readonly uid: string | undefined; readonly past: Partial<P> }>();
  return async (key, context) => {
    const id = toKeyText(key);
    const object = objects.get(key);
    if (object === undefined) {
      carryOut.forget(id);
      pasts.delete(id);
      options.gone?.(key);
      return undefined;
    }
    const { uid } = object.metadata ?? {};
    let known = pasts.get(id);
    if (known?.uid !== uid || known === undefined) pasts.set(id, (known = { uid, past: {} }));
    const decision = options.decide(object, known.past, key);
    if (decision === undefined) return undefined;
    options.decided?.(object, decision);
    const subject = { resource, object };
    const { intents = [], findings = [] } = decision;
    carryOut.tell(id, subject, findings);
    const sent = await carryOut.send(id, subject, intents, context);
    const recheckAfterMs = earliest(sent.recheckAfterMs, decision.recheckAfterMs);
    return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
  };
}

export type ObjectControllerOptions<T extends KubeObject, P, D extends ObjectDecision> = Omit<
  ObjectReconcilerOptions<T, P, D>,
  "objects"
> &
  Omit<ControllerOptions, "reconcile"> &
  (
    | { readonly informer: Informer<T>; readonly cluster: ClusterName }
    /** What tells of objects is among the sources. */
    | { readonly objects: Pick<Lister<T>, "get"> }
  );

export function createObjectController<T extends KubeObject, P, D extends ObjectDecision>(
  options: ObjectControllerOptions<T, P, D>,
): Controller {
  const { sources = [] } = options;
  if ("objects" in options)
    return createController({ ...options, reconcile: createObjectReconciler(options) });
  const { informer, cluster } = options;
  return createController({
    ...options,
    reconcile: createObjectReconciler({ ...options, objects: informer }),
    sources: [watchFor<T>({ informer, map: toSelf(cluster) }), ...sources],
  });
}
