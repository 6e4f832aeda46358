/** By which names the API server finds the webhook, and whose certificates it trusts there. */
import type { MutatingWebhookConfiguration } from "@berth/kube";
import { admissionLabels } from "@berth/placement";
import {
  CertificateKeeper,
  type CertificateSource,
  type Component,
  createCertificateFolder,
} from "@berth/runtime";
import { baseName } from "./installation-name.ts";
import type { AdmissionSettings, WebhookServerOptions } from "./webhook-server.ts";

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

function hostsOf(settings: AdmissionSettings, installation: string): readonly string[] {
  const { spec } = settings;
  if (spec.url !== undefined) return [new URL(spec.url).hostname.replace(/^\[(.*)\]$/, "$1")];
  const { namespace, name } = serviceOf(settings, installation);
  return [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`];
}

type CertificateSurroundings = Pick<
  WebhookServerOptions,
  "client" | "installation" | "clock" | "log" | "onChange"
>;

/** Of a folder where one is named, else made and kept in a Secret. `undefined`: there can be none, or none is needed. */
export function createCertificates(
  settings: AdmissionSettings,
  { client, installation, clock, log, onChange }: CertificateSurroundings,
): (CertificateSource & Component) | undefined {
  const { spec, namespace } = settings;
  if (spec.mode === "Off") return undefined;
  const name = "admission-certificates";
  if (spec.certificates !== undefined)
    return createCertificateFolder({ name, path: spec.certificates, clock, log, onChange });
  if (namespace === undefined) return undefined;
  const labels = { ...admissionLabels({ installation }), "app.kubernetes.io/managed-by": "berth" };
  const secret = { namespace, name: `${baseName(installation)}-webhook-tls` };
  const hosts = hostsOf(settings, installation);
  return new CertificateKeeper({ client, secret, hosts, labels, name, clock, log, onChange });
}
