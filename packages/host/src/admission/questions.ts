/** Questions to the API server: does it serve policies, which other pods of this installation run, and who are we? */
import {
  isApiError,
  type KubeClient,
  mutatingAdmissionPolicies,
  type Pod,
  pods,
  selfSubjectReviews,
} from "@berth/kube";
import { type Installed, installedLabels, toLabelSelector } from "../product.ts";

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

/** A replica that is a pod. */
export interface Replica extends Installed {
  readonly namespace: string;
  readonly podName: string;
}

/** Are there other pods of this installation that run and are not being deleted? */
export async function hasOthers(client: KubeClient, replica: Replica, signal: AbortSignal): Promise<boolean> {
  return (await podsOf(client, replica, signal)).some(
    ({ metadata, status }) =>
      metadata?.name !== replica.podName &&
      metadata?.deletionTimestamp === undefined &&
      status?.phase === "Running",
  );
}

/** The label with the hash of the pod template. A Deployment sets it. */
const TEMPLATE = "pod-template-hash";

/** Are there running pods of this installation with another template? The API server may still call them. */
export async function hasOlder(client: KubeClient, replica: Replica, signal: AbortSignal): Promise<boolean> {
  const found = await podsOf(client, replica, signal);
  const own = found.find(({ metadata }) => metadata?.name === replica.podName)?.metadata?.labels?.[TEMPLATE];
  return found.some(
    ({ metadata, status }) => status?.phase === "Running" && metadata?.labels?.[TEMPLATE] !== own,
  );
}

async function podsOf(
  client: KubeClient,
  { namespace, ...installed }: Replica,
  signal: AbortSignal,
): Promise<readonly Pod[]> {
  const labelSelector = toLabelSelector(installedLabels(installed));
  return (await client.list(pods, { namespace, labelSelector, signal, timeoutMs: 800 })).items;
}

/**
 * The username under which the API server knows this client, for match conditions: a webhook need not be asked about
 * Berth's own writes. `undefined`: the API server did not say, so a webhook is asked about them too.
 */
export async function ownUsername(
  client: Pick<KubeClient, "create">,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { status } = await client.create(selfSubjectReviews, {}, { signal });
    return status?.userInfo?.username;
  } catch (error) {
    if (!isApiError(error) || signal.aborted) throw error;
    return undefined;
  }
}
