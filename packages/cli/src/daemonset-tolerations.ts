/** Lets DaemonSets that are there tolerate the taints of startup gates. */
import { type DaemonSet, daemonSets, isApiError, type KubeClient } from "@berth/kube";
import { type Gates, missingTolerations, tolerationPatch } from "@berth/placement";
import { CommandError } from "./exit-codes.ts";

/** A DaemonSet that keeps changing under us: read again this often. */
const MAX_TRIES = 5;

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
 */
export async function addTolerations(first: DaemonSet, { client, gates, signal }: Work): Promise<boolean> {
  const { name = "", namespace = "" } = first.metadata ?? {};
  let daemonSet = first;
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted();
    const body = tolerationPatch(daemonSet, gates);
    if (body === undefined) return false;
    try {
      await client.patch(daemonSets, { namespace, name }, { type: "json", body }, { signal });
      return true;
    } catch (error) {
      if (isApiError(error, "notFound")) return false;
      // A `test` that does not hold is answered as invalid.
      if (!isApiError(error, "invalid", "conflict") || tries === MAX_TRIES) throw error;
      const again = await reread(client, { namespace, name }, signal);
      if (again === undefined) return false;
      // It has not changed: the server refuses the toleration itself.
      if (again.metadata?.resourceVersion === daemonSet.metadata?.resourceVersion) {
        throw new CommandError(`${namespace}/${name}: ${error.message}`, undefined, { cause: error });
      }
      daemonSet = again;
    }
  }
}

async function reread(
  client: KubeClient,
  of: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<DaemonSet | undefined> {
  try {
    return await client.get(daemonSets, of, { signal });
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    throw error;
  }
}

export function daemonSetName({ metadata }: DaemonSet): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
