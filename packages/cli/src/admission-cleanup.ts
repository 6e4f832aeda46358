/** The objects by which an installation puts the taints of startup gates on new nodes: found and deleted by `berth clean`. */
import {
  isApiError,
  type KubeObject,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Resource,
  serviceAccounts,
} from "@berth/kube";
import { admissionLabels } from "@berth/placement";
import { describeApiError } from "./failure-text.ts";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

export interface AdmissionObject {
  readonly resource: Resource;
  readonly object: KubeObject;
}

/** In this order they are deleted: without its switch no policy acts, and without its binding neither. */
const RESOURCES: readonly Resource[] = [
  serviceAccounts,
  mutatingAdmissionPolicyBindings,
  mutatingAdmissionPolicies,
  mutatingWebhookConfigurations,
];

/** Those of this installation, by their labels. A kind that the server does not have has none; one that may not be read is said. */
export async function findAdmission(
  installation: string,
  { client }: Session,
  { stderr, signal }: Pick<Surroundings, "stderr" | "signal">,
): Promise<readonly AdmissionObject[]> {
  const labels = Object.entries(admissionLabels({ installation }));
  const labelSelector = labels.map(([key, value]) => `${key}=${value}`).join(",");
  const found: AdmissionObject[] = [];
  for (const resource of RESOURCES) {
    try {
      const pages = client.pages(resource, { labelSelector, metadataOnly: true, signal });
      for await (const { items } of pages) found.push(...items.map((object) => ({ resource, object })));
    } catch (error) {
      if (isApiError(error, "notFound")) continue;
      if (!isApiError(error, "forbidden")) throw error;
      stderr.write(`${resource.kind}s are left out: ${describeApiError(error)}\n`);
    }
  }
  return found;
}

/** One that is gone already is as good; one made again under its name stays. */
export async function deleteAdmission(
  found: readonly AdmissionObject[],
  { client }: Session,
  { signal }: Pick<Surroundings, "signal">,
): Promise<void> {
  for (const { resource, object } of found) {
    const { name = "", namespace, uid } = object.metadata ?? {};
    const of = { name, ...(namespace !== undefined && { namespace }) };
    const preconditions = uid === undefined ? {} : { preconditions: { uid } };
    try {
      await client.delete(resource, of, { ...preconditions, signal });
    } catch (error) {
      if (!isApiError(error, "notFound", "conflict", "uidMismatch")) throw error;
    }
  }
}

/** `serviceaccount berth-system/berth-startup-gate`, `mutatingwebhookconfiguration berth-startup-gate`. */
export function admissionName({ resource, object: { metadata } }: AdmissionObject): string {
  const { name = "", namespace } = metadata ?? {};
  return `${resource.kind.toLowerCase()} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
