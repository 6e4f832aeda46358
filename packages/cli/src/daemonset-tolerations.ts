/** Adds tolerations for the taints of startup gates to existing DaemonSets. */
import { type DaemonSet, daemonSets, isApiError, type KubeClient, type Patch, pathOf } from "@berth/kube";
import { type Gates, missingTolerations, tolerationPatch } from "@berth/placement";
import { CommandError } from "./exit-codes.ts";
import { patchAsRead } from "./session.ts";

interface Work {
  readonly client: KubeClient;
  readonly gates: Pick<Gates, "gates">;
  readonly signal: AbortSignal;
}

export interface FoundDaemonSets {
  /** DaemonSets whose pod template lacks a toleration, sorted by namespace and name. */
  readonly lacking: readonly DaemonSet[];
  /** Number of DaemonSets, without those that are being deleted. */
  readonly looked: number;
}

/** @param namespaces empty: all namespaces. */
export async function findLacking(
  namespaces: readonly string[],
  { client, gates, signal }: Work,
): Promise<FoundDaemonSets> {
  const lacking: DaemonSet[] = [];
  let looked = 0;
  for (const namespace of namespaces.length === 0 ? [""] : new Set(namespaces)) {
    for await (const { items } of client.pages(daemonSets, { namespace, signal })) {
      const there = items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
      looked += there.length;
      lacking.push(...there.filter((it) => missingTolerations(it, gates).length > 0));
    }
  }
  lacking.sort((a, b) => (pathOf(a.metadata) < pathOf(b.metadata) ? -1 : 1));
  return { lacking, looked };
}

/**
 * Adds only the tolerations that the DaemonSet lacks. Tolerations that other clients add meanwhile are not added again.
 *
 * @returns whether it was written: not when it is gone, or lacks no toleration any more.
 * @throws CommandError when the server refuses the toleration itself.
 */
export async function addTolerations(daemonSet: DaemonSet, work: Work): Promise<boolean> {
  const patchOf = (read: DaemonSet): Patch | undefined => {
    const body = tolerationPatch(read, work.gates);
    return body && { type: "json", body };
  };
  try {
    return await patchAsRead(daemonSets, daemonSet, patchOf, work);
  } catch (error) {
    if (!isApiError(error, "invalid")) throw error;
    throw new CommandError(`${pathOf(daemonSet.metadata)}: ${error.message}`, undefined, { cause: error });
  }
}
