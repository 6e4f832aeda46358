/** By which names the API server finds the webhook of startup gates, and whose certificates it trusts there. */
import type { MutatingWebhookConfiguration } from "@berth/kube";
import type { AdmissionSettings } from "./admission-parts.ts";
import { baseName } from "./installation-name.ts";

export function caBundleOf(name: string, webhook: string, ca: string): MutatingWebhookConfiguration {
  const caBundle = Buffer.from(ca).toString("base64");
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name },
    // Applied to what is there: the fields that are required stand already.
    webhooks: [
      { name: webhook, clientConfig: { caBundle } },
    ] as unknown as MutatingWebhookConfiguration["webhooks"] & object,
  };
}

export function serviceOf(
  { spec, namespace = "" }: AdmissionSettings,
  installation: string,
): {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
} {
  return spec.service ?? { namespace, name: `${baseName(installation)}-webhook`, port: 443 };
}

export function hostsOf(settings: AdmissionSettings, installation: string): readonly string[] {
  const { spec } = settings;
  if (spec.url !== undefined) return [new URL(spec.url).hostname.replace(/^\[(.*)\]$/, "$1")];
  const { namespace, name } = serviceOf(settings, installation);
  return [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`];
}
