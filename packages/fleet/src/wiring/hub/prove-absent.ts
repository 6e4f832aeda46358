/** What a view lacks may be there: its watch may be behind, above all when a process begins to lead. */
import { isApiError, type KubeObject, type Resource } from "@berth/kube";
import type { EngagedCluster, ObjectKey, ReconcileContext } from "@berth/runtime";
import { workloadDeployments } from "../../api/workload.ts";
import { sourceUidOf } from "../../hub/source.ts";
import type { Place } from "./knowledge.ts";
import type { HubMemory } from "./memory.ts";
import type { HubParts } from "./parts.ts";
import type { PresentClient } from "./sender.ts";

/**
 * Nothing is sent where its deletion was seen, as it is most often.
 *
 * @param uid of the object that a view does not have. `true`: it is not there.
 */
export async function isProvenAbsent<T extends KubeObject>(
  memory: HubMemory,
  client: Pick<PresentClient, "list">,
  resource: Resource<T>,
  key: ObjectKey,
  uid: string,
  context: Pick<ReconcileContext, "signal">,
): Promise<boolean> {
  if (memory.isAbsent(key.cluster, uid)) return true;
  if (await isThere(client, resource, key, uid, context)) return false;
  memory.absent(key.cluster, uid);
  return true;
}

export async function isThere<T extends KubeObject>(
  client: Pick<PresentClient, "list">,
  resource: Resource<T>,
  place: Place,
  uid: string | undefined,
  context: Pick<ReconcileContext, "signal">,
): Promise<boolean> {
  const present = await readUncached(client, resource, place, context);
  return present !== undefined && present.metadata?.uid === uid;
}

/** What has this name now. It needs the right to list alone: a hub may not get objects of its projects. */
export async function readUncached<T extends KubeObject>(
  client: Pick<PresentClient, "list">,
  resource: Resource<T>,
  { namespace, name }: Place,
  { signal }: Pick<ReconcileContext, "signal">,
): Promise<T | undefined> {
  const { items } = await client.list(resource, {
    namespace,
    fieldSelector: `metadata.name=${name}`,
    signal,
  });
  return items[0];
}

/**
 * Reads a cell uncached, and notes that it has no deployment of this source. It counts once Berth in the cell has renewed its
 * Lease since.
 *
 * @param id of the proof. There is one already: nothing is sent.
 */
export async function proveGone(
  { host, memory }: Pick<HubParts, "host" | "memory">,
  cluster: EngagedCluster,
  id: string,
  { namespace, name, sourceUid }: Place & { readonly sourceUid: string | undefined },
  { signal }: Pick<ReconcileContext, "signal">,
): Promise<void> {
  if (memory.hasMissed(id)) return;
  const startedMs = host.clock.monotonic();
  try {
    const present = await cluster.client.get(workloadDeployments, { namespace, name }, { signal });
    if (sourceUidOf(present) !== sourceUid) memory.missed(id, cluster, startedMs);
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    memory.missed(id, cluster, startedMs);
  }
}
