/** Finds objects that `berth clean` deletes as a whole: first the admission objects, at the end Berth's own state. */
import { isFleetLease } from "@berth/fleet";
import {
  type AdmissionTrace,
  baseName,
  certificateLabels,
  documentReviews,
  type Listing,
  listObjects,
  type OneShotRun,
  ownerLabels,
  toLabelSelector,
  type Undo,
} from "@berth/host";
import {
  configMaps,
  isApiError,
  type KubeObject,
  leases,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Resource,
  secrets,
  serviceAccounts,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { berthAs, IMAGE_FACTS_LABEL, placeConfigMapName } from "@berth/placement";
import { capabilities } from "./capabilities.ts";
import { describeApiError } from "./failure-text.ts";
import type { Session } from "./session.ts";

export interface AdmissionObject {
  readonly resource: Resource;
  readonly object: KubeObject;
}

/** In the order of deletion: without its binding a policy has no effect. Earlier releases had a ServiceAccount too. */
const OF_POLICIES: readonly Resource[] = [
  serviceAccounts,
  mutatingAdmissionPolicyBindings,
  mutatingAdmissionPolicies,
];

function resourcesOf({ effect, policies }: AdmissionTrace): readonly Resource[] {
  const configurations =
    effect === "mutate" ? mutatingWebhookConfigurations : validatingWebhookConfigurations;
  return [...(policies === undefined ? [] : OF_POLICIES), configurations];
}

/** Objects of this installation, for one capability or all. The session reports kinds that the user may not read. */
export async function findAdmission(
  { installation, capability }: { readonly installation: string; readonly capability?: string | undefined },
  session: Session,
): Promise<readonly AdmissionObject[]> {
  const found: AdmissionObject[] = [];
  const asked = capabilities.filter(({ name }) => capability === undefined || name === capability);
  const ofAll = capability === undefined ? [documentReviews] : [];
  for (const trace of [...asked.flatMap(({ admission = [] }) => admission), ...ofAll]) {
    // A merged review belongs to the component of its first rules.
    const labelSelector = toLabelSelector(ownerLabels(berthAs(installation), trace.name));
    for (const resource of resourcesOf(trace)) {
      const listing = { resource, labelSelector, metadataOnly: true };
      const objects = (await listObjects(listing, session)) ?? [];
      found.push(...objects.map((object) => ({ resource, object })));
    }
  }
  return found;
}

/**
 * Counts an object that is gone as deleted. Keeps a new object with the same name.
 * @returns for each object that could not be deleted, the reason as one line.
 */
export async function deleteAdmission(
  found: readonly AdmissionObject[],
  { client, signal }: Session,
): Promise<ReadonlyMap<AdmissionObject, string>> {
  const failures = new Map<AdmissionObject, string>();
  for (const one of found) {
    const { resource, object } = one;
    const { name = "", namespace, uid } = object.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    const preconditions = uid === undefined ? {} : { preconditions: { uid } };
    try {
      await client.delete(resource, of, { ...preconditions, signal });
    } catch (error) {
      if (isApiError(error, "notFound", "conflict", "uidMismatch")) continue;
      if (!isApiError(error)) throw error;
      failures.set(one, `${admissionName(one)} could not be deleted: ${describeApiError(error)}`);
    }
  }
  return failures;
}

/** `serviceaccount berth-system/berth-startup-gate`, `mutatingwebhookconfiguration berth-startup-gate`. */
export function admissionName({ resource, object: { metadata } }: AdmissionObject): string {
  const { name = "", namespace } = metadata ?? {};
  return `${resource.kind.toLowerCase()} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** Berth's own state in its namespace, which `berth manifests` does not print. */
export async function findState(namespace: string, run: OneShotRun): Promise<readonly Undo[]> {
  const { installation } = run;
  const kinds: readonly Listing<KubeObject>[] = [
    { resource: leases },
    { resource: secrets, labelSelector: toLabelSelector(certificateLabels(berthAs(installation))) },
    { resource: configMaps, fieldSelector: `metadata.name=${placeConfigMapName(installation)}` },
    { resource: configMaps, labelSelector: `${IMAGE_FACTS_LABEL}=${installation}` },
  ];
  const owner = baseName(berthAs(installation));
  const isOurs = ({ metadata: { name = "" } = {} }: KubeObject): boolean =>
    name === owner || isFleetLease(name, owner);
  const found: Undo[] = [];
  for (const kind of kinds)
    for (const object of (await listObjects({ ...kind, namespace, metadataOnly: true }, run)) ?? [])
      if (kind.resource !== leases || isOurs(object))
        found.push({ resource: kind.resource, object, what: "state of Berth", how: { do: "delete" } });
  return found;
}
