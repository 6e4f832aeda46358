/** Keeps the status of our own kinds true: one guarded patch when it differs, else nothing. */
import { isApiError, type KubeObject, type Resource } from "@berth/kube";
import {
  type DesiredCondition,
  type EventInput,
  type Lister,
  type ObjectKey,
  type Reconcile,
  referenceTo,
} from "@berth/runtime";

/** A merge patch of the status subresource, bound to the version that was looked at. */
export interface StatusPatch<S> {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string };
  readonly status: S;
}

export interface StatusDecision<S> {
  /** The status to write; `undefined` when it stands already, or cannot be told yet. */
  readonly status: S | undefined;
  /** Conditions that began to hold, or to fail, and deserve an Event. */
  readonly news: readonly DesiredCondition[];
}

export interface StatusReconcilerOptions<T extends KubeObject, S> {
  readonly resource: Resource<T>;
  readonly objects: Pick<Lister<T>, "get">;
  readonly decide: (object: T, name: string) => StatusDecision<S>;
  /** Rejects with `ApiError`. */
  readonly patchStatus: (name: string, patch: StatusPatch<S>, signal: AbortSignal) => Promise<unknown>;
  /** Is this news that nobody has to act on? */
  readonly isGood: (news: DesiredCondition) => boolean;
  /** What Events are about, `KeepRule`, and what the log calls the object, `label rule`. */
  readonly action: string;
  readonly noun: string;
  /** An `EventRecorder` is one. Absent: there are no Events. */
  readonly events?: { record(event: EventInput): void };
}

export function createStatusReconciler<T extends KubeObject, S>(
  options: StatusReconcilerOptions<T, S>,
): Reconcile<ObjectKey> {
  const { resource, objects, decide, patchStatus, isGood, action, noun, events } = options;
  return async (key, { signal, log }) => {
    const object = objects.get(key);
    const { uid, resourceVersion, deletionTimestamp } = object?.metadata ?? {};
    if (object === undefined || uid === undefined || resourceVersion === undefined) return undefined;
    if (deletionTimestamp !== undefined) return undefined;
    const { status, news } = decide(object, key.name);
    if (status === undefined) return undefined;
    try {
      await patchStatus(key.name, { metadata: { uid, resourceVersion }, status }, signal);
    } catch (error) {
      // A newer version is on its way, or the object is gone: its event brings the key back.
      if (isApiError(error, "conflict", "uidMismatch", "notFound")) return undefined;
      throw error;
    }
    for (const one of news) {
      const { type, reason, message } = one;
      const good = isGood(one);
      log[good ? "info" : "warn"](noun, { name: key.name, condition: type, reason, message });
      events?.record({
        regarding: referenceTo(resource, object),
        reason,
        note: message,
        type: good ? "Normal" : "Warning",
        action,
      });
    }
    return undefined;
  };
}
