/** Lets DaemonSets that are there tolerate the taints of startup gates. */
import { type DaemonSet, daemonSets, isApiError, type KubeClient, type Patch } from "@berth/kube";
import { type Gates, missingTolerations, tolerationPatch } from "@berth/placement";
import { CommandError } from "./exit-codes.ts";
import { patchAsRead } from "./session.ts";

interface Work {
  readonly client: KubeClient;
  readonly gates: Pick<Gates, "gates">;
  readonly signal: AbortSignal;
}

export interface FoundDaemonSets {
  /** Those whose pod template lacks a toleration, in order of namespace and name. */
  readonly lacking: readonly DaemonSet[];
  /** How many were looked at. One that is being deleted is not. */
  readonly looked: number;
}

/** @param namespaces none is all. */
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
  lacking.sort((a, b) => (daemonSetName(a) < daemonSetName(b) ? -1 : 1));
  return { lacking, looked };
}

/**
 * Adds what the DaemonSet lacks, and nothing else; what others add meanwhile is seen and not added again.
 *
 * @returns whether it was written: not when it is gone, or lacks nothing any more.
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
    throw new CommandError(`${daemonSetName(daemonSet)}: ${error.message}`, undefined, { cause: error });
  }
}

export function daemonSetName({ metadata }: DaemonSet): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
