import type { KubeObject, Patch } from "@berth/kube";

/**
 * Other controllers have entries in the list of finalizers too, and a merge patch replaces lists whole. So each patch
 * here carries the resourceVersion it is based on: the server answers `conflict` after another write. It also carries
 * the uid, so a new object under the same name is never changed.
 */

/** Whether the object has this finalizer. */
export function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata?.finalizers?.includes(finalizer) ?? false;
}

/**
 * The patch that adds a finalizer; `undefined` when it is there already, and when the object is being deleted: the
 * server refuses new finalizers then.
 * @throws TypeError when the object was never read from a server (no uid or resourceVersion).
 */
export function addFinalizer(object: KubeObject, finalizer: string): Patch | undefined {
  if (hasFinalizer(object, finalizer) || object.metadata?.deletionTimestamp !== undefined) return undefined;
  return replaceFinalizers(object, [...(object.metadata?.finalizers ?? []), finalizer]);
}

/**
 * The patch that removes a finalizer, every time it is listed; `undefined` when it is not there. Other entries keep
 * their order.
 * @throws TypeError as `addFinalizer`.
 */
export function removeFinalizer(object: KubeObject, finalizer: string): Patch | undefined {
  if (!hasFinalizer(object, finalizer)) return undefined;
  return replaceFinalizers(
    object,
    (object.metadata?.finalizers ?? []).filter((entry) => entry !== finalizer),
  );
}

function replaceFinalizers(object: KubeObject, finalizers: readonly string[]): Patch {
  const { uid, resourceVersion } = object.metadata ?? {};
  if (!uid || !resourceVersion)
    throw new TypeError("an object without uid and resourceVersion cannot be patched safely");
  return { type: "merge", body: { metadata: { uid, resourceVersion, finalizers } } };
}
