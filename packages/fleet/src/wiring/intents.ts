/** Intents that several controllers of the fleet send. */
import type { Intent } from "@berth/host";
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

/** Merges into the stored status. */
export function statusTo(status: object, reason: string, message: string): Intent {
  return { do: "patch", patch: { type: "merge", body: { status } }, subresource: "status", reason, message };
}

/** Creates an object for the object of the decision. */
export function creationOf(resource: Resource, body: KubeObject, what: string): Intent {
  const { name } = body.metadata ?? {};
  return {
    do: "create",
    on: { resource, seen: undefined },
    body,
    reason: `${resource.kind}Created`,
    message: `${resource.kind} ${name} is created`,
    what,
  };
}

/** Deletes this very object, whatever changed on it meanwhile. */
export function deletionOf(resource: Resource, object: KubeObject, message: string, what: string): Intent {
  return {
    do: "delete",
    on: { resource, seen: object },
    bound: "uid",
    reason: `${resource.kind}Deleted`,
    message,
    what,
  };
}
