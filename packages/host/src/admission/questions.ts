/** What has to be asked before and after new nodes are gated: can the API server do it itself, and is anybody left? */
import { isApiError, type KubeClient, mutatingAdmissionPolicies, pods } from "@berth/kube";

/** Does the API server have MutatingAdmissionPolicies (`v1`, from 1.36)? */
export async function servesPolicies(client: KubeClient, signal: AbortSignal): Promise<boolean> {
  const { group, version, plural } = mutatingAdmissionPolicies;
  try {
    const found: unknown = JSON.parse(await client.read(`/apis/${group}/${version}`, { signal }));
    const { resources } = found as { readonly resources?: readonly { readonly name?: string }[] };
    return resources?.some(({ name }) => name === plural) === true;
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    throw error;
  }
}

/** Are there other pods of this installation that are not about to end? */
export async function hasOthers(
  client: KubeClient,
  {
    namespace,
    installation,
    podName,
  }: { readonly namespace: string; readonly installation: string; readonly podName: string },
  signal: AbortSignal,
): Promise<boolean> {
  const labelSelector = `app.kubernetes.io/name=berth,app.kubernetes.io/instance=${installation}`;
  const { items } = await client.list(pods, { namespace, labelSelector, signal, timeoutMs: 800 });
  return items.some(
    ({ metadata, status }) =>
      metadata?.name !== podName && metadata?.deletionTimestamp === undefined && status?.phase === "Running",
  );
}
