/** The webhook configuration that the host makes of rules. */
import {
  type AdmissionEnv,
  type AdmissionRules,
  bindAdmission,
  mergeReviews,
  toConfiguration,
  type WebhookAddress,
} from "@berth/host";
import type { MutatingWebhookConfiguration } from "@berth/kube";
import { berthAs } from "../../api/group.ts";

/** How the API server reaches Berth in tests of what it is told. */
export const SERVICE = { service: { namespace: "berth-system", name: "berth" } };

/** Of Berth in `berth-system`, which lets in what it cannot be asked about. */
export const ENV: AdmissionEnv = {
  ...berthAs("berth"),
  namespace: "berth-system",
  spec: { failurePolicy: "Ignore" },
};

export function configurationOf<C extends object>(
  rules: AdmissionRules<C>,
  inForce: C,
  {
    client = SERVICE,
    ca = "PEM",
    ...env
  }: Partial<AdmissionEnv> & { readonly client?: WebhookAddress; readonly ca?: string } = {},
): MutatingWebhookConfiguration {
  const at = { ...ENV, ...env };
  const bound = bindAdmission<C & { readonly policy: object }>(rules, () => ({ ...inForce, policy: {} }));
  return toConfiguration(bound, mergeReviews([bound], at).get(rules.name) ?? [], { ...at, client, ca });
}
