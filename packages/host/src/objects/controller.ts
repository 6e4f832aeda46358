/** A controller for the objects of one kind: decides about each object and carries out the decision. */
import type { KubeObject, Resource } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Controller,
  type ControllerOptions,
  createController,
  earliest,
  type Informer,
  type Lister,
  type ObjectKey,
  type Reconcile,
  toKeyText,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { CarryOut, type CarryOutOptions, type Finding } from "./carry-out.ts";
import type { Intent } from "./intent.ts";

/** What an object needs. An empty decision means that the object is settled. */
export interface ObjectDecision {
  /** Sent in order. A second intent for an object waits for the version that the first one made. */
  readonly intents?: readonly Intent[];
  /** Reported as Events, each reason once for each `about`. */
  readonly findings?: readonly Finding[];
  readonly recheckAfterMs?: number | undefined;
}

/** Rules for the objects of one kind. `P` is the state that Berth keeps for one object; a restart loses it. */
export interface ObjectRules<T extends KubeObject, P = unknown, D extends ObjectDecision = ObjectDecision>
  extends Omit<CarryOutOptions<T>, "client" | "clock" | "events"> {
  readonly resource: Resource<T>;
  /** @param past changed in place; empty at first. @returns `undefined`: not known yet, or nothing to report. */
  decide(object: T, past: Partial<P>, key: ObjectKey): D | undefined;
  decided?(object: T, decision: D): void;
  /** Called when the object does not exist. */
  gone?(key: ObjectKey): void;
}

export interface ObjectReconcilerOptions<T extends KubeObject, P, D extends ObjectDecision>
  extends ObjectRules<T, P, D>,
    Pick<CarryOutOptions, "client" | "events"> {
  readonly objects: Pick<Lister<T>, "get">;
  readonly clock: Clock;
}

/** Level-based: looks at the current object only. Keeps memory for each object until the object is gone. */
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
    const known = pasts.get(id);
    const past = known?.uid === uid && known !== undefined ? known.past : {};
    const decision = options.decide(object, past, key);
    // Most objects of a large cluster have no past.
    if (Object.keys(past).length > 0) pasts.set(id, { uid, past });
    else pasts.delete(id);
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
    /** The caller adds a source that reports changes of the objects. */
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
