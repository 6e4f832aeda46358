import { isApiError, type KubeClient, namespaces } from "@berth/kube";
import type { ClusterChoice } from "./connection.ts";

/** The namespace of Berth's own state: its Lease, and Events about its files. */
export interface StateNamespace {
  readonly name: string;
  /** False only when the server said that it does not exist. Berth then keeps its state in memory. */
  readonly exists: boolean;
  readonly uid?: string;
}

export const DEFAULT_NAMESPACE = "berth-system";

/** The namespace of `--namespace`, else that of the pod of this process, else `berth-system`. */
export async function findStateNamespace(
  client: Pick<KubeClient, "get" | "create">,
  {
    wanted,
    isNeeded = false,
    cluster,
    signal,
  }: {
    readonly wanted: string | undefined;
    /** It is made where there is none. Default false. */
    readonly isNeeded?: boolean;
    readonly cluster: Pick<ClusterChoice, "inCluster" | "namespace">;
    readonly signal: AbortSignal;
  },
): Promise<StateNamespace> {
  const name = wanted || (cluster.inCluster ? cluster.namespace : undefined) || DEFAULT_NAMESPACE;
  try {
    const { metadata } = await client.get(namespaces, { name }, { signal, timeoutMs: 5000 });
    return { name, exists: true, ...(metadata?.uid ? { uid: metadata.uid } : {}) };
  } catch (error) {
    if (!isApiError(error)) throw error;
    signal.throwIfAborted();
    if (!isApiError(error, "notFound")) return { name, exists: true };
    if (!isNeeded) return { name, exists: false };
    const { metadata } = await client
      .create(namespaces, { metadata: { name } }, { signal })
      .catch((failure: unknown) => {
        // Another process has made it meanwhile.
        if (!isApiError(failure, "alreadyExists")) throw failure;
        return client.get(namespaces, { name }, { signal, timeoutMs: 5000 });
      });
    return { name, exists: true, ...(metadata?.uid ? { uid: metadata.uid } : {}) };
  }
}
