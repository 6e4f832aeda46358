/** Deletes what an owner owns, as far as that is allowed. */
import { type ApiError, isApiError, type KubeClient } from "@berth/kube";
import type { Reconcile } from "@berth/runtime";
import type { HeldOwner } from "../footprint-sight.ts";
import type { OwnedObject } from "./decide.ts";
import { heldName, resourceOf } from "./held-resource.ts";
import type { OwnerKey } from "./watches.ts";

/** What is remembered of it while the owner is being deleted. */
export interface DeletionMemory {
  /** Uids of owned objects whose deletion was asked for. */
  readonly asked: Set<string>;
}

export interface Deletions {
  readonly owner: HeldOwner;
  readonly deletes: readonly OwnedObject[];
  /** Written to. */
  readonly memory: DeletionMemory;
  readonly context: Parameters<Reconcile<OwnerKey>>[1];
}

/**
 * Of the version that was seen to be owned: what has been orphaned meanwhile is another one. A refusal stops no other
 * deletion: a policy may protect some objects and not the rest. What a missing permission would refuse is not even sent
 * (`GuardedClient`).
 *
 * @throws ApiError of kind forbidden, the first, once all others have been asked for.
 */
export async function deleteOwned(
  client: Pick<KubeClient, "delete">,
  { owner, deletes, memory: { asked }, context }: Deletions,
): Promise<void> {
  let refusal: ApiError | undefined;
  for (const { resource, namespace, name, uid, resourceVersion } of deletes) {
    const about = resourceOf(resource, namespace !== "");
    const preconditions = { uid, resourceVersion };
    const options = { propagationPolicy: "Background", preconditions, signal: context.signal } as const;
    try {
      await client.delete(about, { namespace, name }, options);
    } catch (error) {
      if (!isApiError(error, "forbidden", "notFound", "conflict", "uidMismatch")) throw error;
      if (isApiError(error, "forbidden")) refusal ??= error;
      // A newer version is on its way, and its event brings the owner back.
      continue;
    }
    asked.add(uid);
    context.log.info("deleted what the owner owned", {
      owner: heldName(owner),
      name,
      resource: about.plural,
    });
  }
  if (refusal !== undefined) throw refusal;
}
