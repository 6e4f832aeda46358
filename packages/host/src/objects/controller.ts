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
  type Logger,
  type ObjectKey,
  type Reconcile,
  type ReconcileContext,
  type ReconcileResult,
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
  /** Asks the API server what a decision needs, before each. @returns when to ask again, ms. @throws ApiError */
  look?(object: T, key: ObjectKey, signal: AbortSignal): Promise<number | undefined>;
  /** @param past changed in place; empty at first. @returns `undefined`: not known yet, or nothing to report. */
  decide(object: T, past: Partial<P>, key: ObjectKey, refusals: Refusals): D | undefined;
  /** The most decisions in one run. Each further one is about the object as the server stored it. Default 1. */
  readonly steps?: number;
  decided?(object: T, decision: D): void;
  /** Called with the last decision of a run, if another run follows without a change. */
  waits?(object: T, decision: D, wait: Wait): void;
  /** Called when the object does not exist. @returns when to call it again, ms. */
  gone?(key: ObjectKey): number | undefined | void;
  /** Called with the uid of an object that had a past and is gone. Another one may have its name. */
  forgotten?(uid: string): void;
}

/** Why the server refuses to create or delete other objects for this one, by their names. */
export type Refusals = ReadonlyMap<string, string>;

export interface Wait {
  readonly recheckAfterMs: number;
  /** The server has not taken all changes, or the cache does not show them yet. */
  readonly isBehind: boolean;
  readonly log: Logger;
}

export interface ObjectReconcilerOptions<T extends KubeObject, P, D extends ObjectDecision>
  extends ObjectRules<T, P, D>,
    Pick<CarryOutOptions, "client" | "events"> {
  readonly objects: Pick<Lister<T>, "get">;
  readonly clock: Clock;
  /** Called when a refusal is new: a status says it at once. Default: `decide` learns of no refusals. */
  readonly onRefused?: (key: ObjectKey) => void;
}

/** The state that Berth keeps for one object. */
interface Memory<T, P> {
  readonly key: ObjectKey;
  readonly uid: string | undefined;
  readonly past: Partial<P>;
  readonly refusals: Map<string, string>;
  /** The object after the last write to it, until the next decision. */
  stored?: T | undefined;
}

/** Level-based: looks at the current object only. Keeps memory for each object until the object is gone. */
export function createObjectReconciler<T extends KubeObject, P, D extends ObjectDecision>(
  options: ObjectReconcilerOptions<T, P, D>,
): Reconcile<ObjectKey> {
  const { objects, resource, steps = 1 } = options;
  const memories = new Map<string, Memory<T, P>>();
  const deciding = new WeakMap<T, Memory<T, P>>();
  const carryOut = new CarryOut<T>({ ...options, ...rememberIn(deciding, options) });
  const step = async (object: T, memory: Memory<T, P>, context: ReconcileContext) => {
    const { key, past, refusals } = memory;
    const id = toKeyText(key);
    memory.stored = undefined;
    const askAfterMs = await options.look?.(object, key, context.signal);
    const decision = options.decide(object, past, key, refusals);
    if (decision === undefined) return undefined;
    options.decided?.(object, decision);
    const subject = { resource, object };
    const { intents = [], findings = [] } = decision;
    carryOut.tell(id, subject, findings);
    deciding.set(object, memory);
    const sent = await carryOut.send(id, subject, intents, context);
    const recheckAfterMs = earliest(sent.recheckAfterMs, decision.recheckAfterMs, askAfterMs);
    return { object, decision, recheckAfterMs, isBehind: sent.recheckAfterMs !== undefined };
  };
  return async (key, context) => {
    const id = toKeyText(key);
    const object = objects.get(key);
    const { uid } = object?.metadata ?? {};
    const known = memories.get(id);
    if (known !== undefined && known.uid !== uid) options.forgotten?.(known.uid ?? "");
    const memory: Memory<T, P> =
      known?.uid === uid && known ? known : { key, uid, past: {}, refusals: new Map() };
    memories.delete(id);
    if (object === undefined) {
      carryOut.forget(id);
      return toResult(options.gone?.(key) ?? undefined);
    }
    try {
      let last = await step(object, memory, context);
      for (let left = steps - 1; left > 0 && isThere(memory.stored); left -= 1)
        last = await step(memory.stored, memory, context);
      const { recheckAfterMs, isBehind = false } = last ?? {};
      if (last !== undefined && recheckAfterMs !== undefined)
        options.waits?.(last.object, last.decision, { recheckAfterMs, isBehind, log: context.log });
      return toResult(recheckAfterMs);
    } finally {
      // Most objects of a large cluster have no past.
      if (Object.keys(memory.past).length > 0 || memory.refusals.size > 0) memories.set(id, memory);
    }
  };
}

/** Keeps what the answers to intents say, and tells the rules of them. */
function rememberIn<T extends KubeObject, P>(
  deciding: WeakMap<T, Memory<T, P>>,
  options: Pick<ObjectReconcilerOptions<T, P, ObjectDecision>, "done" | "withheld" | "onRefused">,
): Pick<CarryOutOptions<T>, "done" | "withheld"> {
  return {
    done(object, intent, stored) {
      const memory = deciding.get(object);
      memory?.refusals.delete(nameOf(intent));
      // The server answers with an object of the same kind.
      if (memory !== undefined && intent.on === undefined) memory.stored = stored as T | undefined;
      options.done?.(object, intent, stored);
    },
    withheld(object, why, restMs, intent) {
      options.withheld?.(object, why, restMs, intent);
      const memory = deciding.get(object);
      if (options.onRefused === undefined || memory === undefined) return;
      if (intent.on === undefined || intent.do === "patch") return;
      const { key, refusals } = memory;
      const before = refusals.get(nameOf(intent));
      refusals.set(nameOf(intent), why.message);
      // What does not rest is tried again, and may fail in other words each time.
      if (before === undefined || (before !== why.message && restMs !== undefined)) options.onRefused(key);
    },
  };
}

/** Of the object that the intent changes. */
function nameOf(intent: Intent): string {
  return ("body" in intent ? intent.body : intent.on?.seen)?.metadata?.name ?? "";
}

function isThere<T extends KubeObject>(stored: T | undefined): stored is T {
  return stored !== undefined && stored.metadata?.deletionTimestamp === undefined;
}

function toResult(recheckAfterMs: number | undefined): ReconcileResult | undefined {
  return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
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
