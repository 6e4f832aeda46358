/** Intents that several controllers of the fleet send. */
import type { Intent, Target } from "@berth/host";
import type { KubeObject, Resource } from "@berth/kube";

/** Replaces the finalizers of the object. */
export function finalizersTo(finalizers: readonly string[]): Intent {
  return {
    do: "patch",
    patch: { type: "merge", body: { metadata: { finalizers } } },
    reason: "FinalizersChanged",
    message: "the finalizers changed",
    what: "its finalizers",
  };
}

/** Merges into the stored status. @param stored its fields that `status` has no more are removed. Default: all stay. */
export function statusTo(status: object, reason: string, message: string, stored: object = {}): Intent {
  const gone = Object.keys(stored).filter((field) => !Object.hasOwn(status, field));
  const body = { status: { ...Object.fromEntries(gone.map((field) => [field, null])), ...status } };
  return { do: "patch", patch: { type: "merge", body }, subresource: "status", reason, message };
}

/** Creates an object for the object of the decision. @param via the client of another cluster. */
export function creationOf(resource: Resource, body: KubeObject, what: string, via?: Target["via"]): Intent {
  const { name } = body.metadata ?? {};
  return {
    do: "create",
    on: { resource, seen: undefined, ...(via && { via }) },
    body,
    reason: `${resource.kind}Created`,
    message: `${resource.kind} ${name} is created`,
    what,
  };
}

/** Deletes this very object, whatever changed on it meanwhile. */
export function deletionOf(
  resource: Resource,
  object: KubeObject,
  message: string,
  what: string,
  via?: Target["via"],
): Intent {
  return {
    do: "delete",
    on: { resource, seen: object, ...(via && { via }) },
    bound: "uid",
    reason: `${resource.kind}Deleted`,
    message,
    what,
  };
}
