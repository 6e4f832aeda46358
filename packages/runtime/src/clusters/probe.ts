import { ApiError, isApiError, type KubeClient, type Lease, leases, namespaces } from "@berth/kube";
import { type Observation, observationOf, type Uid } from "./reachability.ts";

/** What a probe reads. */
export interface ProbeTarget {
  /** It may be missing. */
  readonly lease: { readonly namespace: string; readonly name: string };
  /** The namespace whose uid is the identity of the cluster. */
  readonly identityNamespace: string;
}

/** Time for each of the two requests of a probe. Milliseconds. A cluster that is slow by seconds is slow, not silent. */
export const PROBE_TIMEOUT_MS = 4_000;

/** What one probe has shown. `lease` is absent when it is missing or was not read. */
export interface ProbeResult {
  readonly observation: Observation;
  readonly lease?: Lease;
}

/**
 * Lists one Lease, and then reads the identity on the same connection. A list without a version comes from the store,
 * so its version is the latest one.
 */
export async function probe(
  client: Pick<KubeClient, "list" | "get">,
  { lease: { namespace, name }, identityNamespace }: ProbeTarget,
  signal: AbortSignal,
): Promise<ProbeResult> {
  try {
    const options = { signal, timeoutMs: PROBE_TIMEOUT_MS };
    const { items, metadata } = await client.list(leases, {
      ...options,
      namespace,
      fieldSelector: `metadata.name=${name}`,
      limit: 1,
    });
    const uid = await readIdentity(client, identityNamespace, options);
    const [lease] = items;
    return {
      observation: { is: "answered", uid, version: metadata.resourceVersion ?? "" },
      ...(lease && { lease }),
    };
  } catch (error) {
    if (isApiError(error)) return { observation: observationOf(error) };
    throw error;
  }
}

/** @throws ApiError, `notFound` when the namespace has no uid. */
export async function readIdentity(
  client: Pick<KubeClient, "get">,
  namespace: string,
  options: { readonly signal?: AbortSignal; readonly timeoutMs: number },
): Promise<Uid> {
  const { metadata } = await client.get(namespaces, { name: namespace }, { ...options, metadataOnly: true });
  if (metadata?.uid) return metadata.uid;
  throw new ApiError({ kind: "notFound" }, { verb: "get", resource: "namespaces", name: namespace });
}
