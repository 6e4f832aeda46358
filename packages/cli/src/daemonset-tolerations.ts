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

/** One DaemonSet, or all of a namespace. */
export interface DaemonSetScope {
  readonly namespace: string;
  readonly name?: string;
}

/**
 * @param scopes empty: all DaemonSets.
 * @throws CommandError for a name that no DaemonSet has.
 */
export async function findLacking(
  scopes: readonly DaemonSetScope[],
  { client, gates, signal }: Work,
): Promise<FoundDaemonSets> {
  const found = new Map<string, DaemonSet>();
  for (const { namespace, name } of scopes.length === 0 ? [{ namespace: "" } as DaemonSetScope] : scopes) {
    const fieldSelector = name === undefined ? {} : { fieldSelector: `metadata.name=${name}` };
    for await (const { items } of client.pages(daemonSets, { namespace, ...fieldSelector, signal }))
      for (const it of items)
        if (it.metadata?.deletionTimestamp === undefined) found.set(pathOf(it.metadata), it);
    if (name !== undefined && !found.has(`${namespace}/${name}`))
      throw new CommandError(`there is no DaemonSet ${namespace}/${name}`);
  }
  const lacking = [...found.values()].filter((it) => missingTolerations(it, gates).length > 0);
  lacking.sort((a, b) => (pathOf(a.metadata) < pathOf(b.metadata) ? -1 : 1));
  return { lacking, looked: found.size };
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
