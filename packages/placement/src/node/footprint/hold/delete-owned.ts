/** Deletes what an owner owns, as far as that is allowed. */
import { type ApiError, isApiError, type KubeClient } from "@berth/kube";
import type { Reconcile } from "@berth/runtime";
import type { HeldOwner } from "../footprint-sight.ts";
import type { OwnedObject } from "./decide.ts";
import { heldName, resourceName, resourceOf } from "./held-resource.ts";
import type { OwnerKey } from "./watches.ts";

/** What is remembered of it while the owner is being deleted. */
export interface DeletionMemory {
  /** Uids of owned objects whose deletion was asked for. */
  readonly asked: Set<string>;
  /** How often that was refused, by uid. */
  readonly refusals: Map<string, number>;
}

export interface Deletions {
  readonly owner: HeldOwner;
  readonly deletes: readonly OwnedObject[];
  /** Written to. */
  readonly memory: DeletionMemory;
  readonly context: Parameters<Reconcile<OwnerKey>>[1];
}

/**
 * Of the version that was seen to be owned: what has been orphaned meanwhile is another one. A right that is missing is met
 * once: of that resource and namespace nothing more is asked for. What was refused least often goes first, for a policy may
 * protect some of them and not the rest.
 *
 * @throws ApiError of kind forbidden, the first, once all others have been asked for.
 */
export async function deleteOwned(
  client: Pick<KubeClient, "delete">,
  { owner, deletes, memory: { asked, refusals }, context }: Deletions,
): Promise<void> {
  const refusalsOf = ({ uid }: OwnedObject): number => refusals.get(uid) ?? 0;
  const lost = new Map<string, ApiError>();
  for (const one of deletes.toSorted((a, b) => refusalsOf(a) - refusalsOf(b))) {
    const { resource, namespace, name, uid, resourceVersion } = one;
    const right = `${resourceName(resource)} ${namespace}`;
    if (lost.has(right)) continue;
    const about = resourceOf(resource, namespace !== "");
    const preconditions = { uid, resourceVersion };
    const options = { propagationPolicy: "Background", preconditions, signal: context.signal } as const;
    try {
      await client.delete(about, { namespace, name }, options);
    } catch (error) {
      if (!isApiError(error, "forbidden", "notFound", "conflict", "uidMismatch")) throw error;
      if (isApiError(error, "forbidden")) {
        lost.set(right, error);
        refusals.set(uid, refusalsOf(one) + 1);
      }
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
  const [refusal] = lost.values();
  if (refusal !== undefined) throw refusal;
}
