/** What a view lacks may be there: its watch may be behind, above all when a process begins to lead. */
import type { KubeObject, Resource } from "@berth/kube";
import type { ReconcileContext } from "@berth/runtime";
import type { Place } from "./knowledge.ts";
import type { HubMemory } from "./memory.ts";
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
  { namespace, name }: Place,
  uid: string,
  { signal }: Pick<ReconcileContext, "signal">,
): Promise<boolean> {
  if (memory.isAbsent(uid)) return true;
  const { items } = await client.list(resource, {
    namespace,
    fieldSelector: `metadata.name=${name}`,
    signal,
  });
  if (items.some(({ metadata }) => metadata?.uid === uid)) return false;
  memory.absent(uid);
  return true;
}
