/** One owner, read as a reference names it. */
import { isApiError, type KubeClient, type ObjectMeta, type ResourceDirectory } from "@berth/kube";
import { kindText, type NamedOwner, WORKLOADS } from "../node/owner-reference.ts";

/** As the server has it. */
export interface ReadOwner {
  /** As `OwnerIdentity` has it. */
  readonly resource: string;
  readonly metadata: ObjectMeta;
}

export interface OwnerReading {
  readonly client: Pick<KubeClient, "get">;
  /** For kinds that are not Kubernetes' own. */
  readonly directory: Pick<ResourceDirectory, "ofKind">;
  readonly signal: AbortSignal;
}

/**
 * `undefined`: there is no such owner. `unserved`: the server does not have its kind.
 *
 * @throws ApiError when it cannot be read.
 */
export async function readOwner(
  { namespace, group, version, ref: { kind, name, uid } }: NamedOwner,
  { client, directory, signal }: OwnerReading,
): Promise<ReadOwner | undefined | "unserved"> {
  const resource =
    WORKLOADS.get(kindText({ group, kind })) ?? (await directory.ofKind({ group, version, kind }, signal));
  if (resource === undefined) return "unserved";
  if (resource.namespaced && namespace === "") return undefined;
  try {
    const of = { name, ...(resource.namespaced && { namespace }) };
    const { metadata } = await client.get(resource, of, { signal, metadataOnly: true });
    return metadata?.uid === uid ? { resource: resource.plural, metadata } : undefined;
  } catch (error) {
    // What is no name is the name of nothing.
    if (isApiError(error, "notFound", "invalid")) return undefined;
    throw error;
  }
}
