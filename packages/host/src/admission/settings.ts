/** The document `AdmissionServer`: how Berth changes new objects before they are stored. Files hold at most one. */
import path from "node:path";
import { parseBindAddress } from "@berth/runtime";
import * as z from "zod";
import { type DocumentKind, onlyOne } from "../documents/document-kind.ts";

export interface AdmissionServerSpec {
  /** `Auto` (default) uses policies where the API server serves them, and a webhook elsewhere. */
  readonly mode: "Auto" | "Policy" | "Webhook" | "Off";
  /** Where the webhook listens, with TLS. Default `:8443`. */
  readonly bindAddress: string;
  /** Folder with `tls.crt`, `tls.key` and, for `caBundle`, `ca.crt`. Absent: Berth creates and renews its own. */
  readonly certificates?: string | undefined;
  /**
   * PEM file of the authorities that sign only the client certificates of API servers. Absent: the webhook asks for
   * no client certificate, and an API server shares its limits with every other client at the same address.
   */
  readonly clientCertificateAuthority?: string | undefined;
  /** The Service through which the API server reaches the webhook. Default: Berth's own, in its namespace. */
  readonly service?: { readonly namespace: string; readonly name: string; readonly port: number } | undefined;
  /** The URL of the webhook, used instead of a Service: `https://berth.example:8443`. */
  readonly url?: string | undefined;
  /** An existing webhook configuration: Berth only updates its caBundle. Absent: Berth creates its own. */
  readonly configuration?: { readonly name: string; readonly webhook: string } | undefined;
  /** `Ignore` (default) stores a new Node unchanged when Berth does not answer; `Fail` refuses it. */
  readonly failurePolicy: "Ignore" | "Fail";
  /**
   * The same for a new Pod, where an architecture policy needs admission. `Fail`: while Berth does not answer, no
   * pod can be created outside kube-system. Default `Ignore`.
   */
  readonly podFailurePolicy?: "Ignore" | "Fail" | undefined;
}

const name = (): z.ZodString => z.string().min(1).max(253);

export const admissionServerSpec: z.ZodType<AdmissionServerSpec> = z
  .strictObject({
    mode: z.enum(["Auto", "Policy", "Webhook", "Off"]).default("Auto"),
    bindAddress: z
      .string()
      .default(":8443")
      .superRefine((value, context) => {
        try {
          parseBindAddress(value);
        } catch (error) {
          context.addIssue({
            code: "custom",
            message: error instanceof Error ? error.message : String(error),
          });
        }
      }),
    certificates: z.string().min(1).optional(),
    clientCertificateAuthority: z.string().min(1).optional(),
    service: z
      .strictObject({ namespace: name(), name: name(), port: z.int().min(1).max(65_535).default(443) })
      .optional(),
    url: z.url({ protocol: /^https$/, error: "must be a URL that begins with https://" }).optional(),
    configuration: z.strictObject({ name: name(), webhook: name() }).optional(),
    failurePolicy: z.enum(["Ignore", "Fail"]).default("Ignore"),
    podFailurePolicy: z.enum(["Ignore", "Fail"]).optional(),
  })
  .superRefine(({ service, url }, context) => {
    if (service !== undefined && url !== undefined)
      context.addIssue({ code: "custom", message: "either a service or a url", path: ["url"] });
  });

export const admissionServerKind: DocumentKind<AdmissionServerSpec> = {
  kind: "AdmissionServer",
  spec: admissionServerSpec,
  placed({ certificates, clientCertificateAuthority: authority, ...spec }, { folder }) {
    return {
      ...spec,
      ...(certificates !== undefined && { certificates: path.resolve(folder, certificates) }),
      ...(authority !== undefined && { clientCertificateAuthority: path.resolve(folder, authority) }),
    };
  },
  tooMany: onlyOne("AdmissionServer"),
};

/** The settings without a document. */
export const defaultAdmissionServer: AdmissionServerSpec = admissionServerSpec.parse({});

export interface AdmissionSettings {
  readonly spec: AdmissionServerSpec;
  /** Namespace of the certificates. Absent: it does not exist, and Berth keeps certificates for a `url` in memory. */
  readonly namespace?: string;
  /** False: this process is no pod of the cluster, so its Service does not lead here. Default true. */
  readonly inCluster?: boolean;
  /** Contents of `spec.clientCertificateAuthority`, PEM. */
  readonly clientAuthority?: string;
  /** Name of this replica's pod, to distinguish it from others. Absent: it is no pod, and the only replica. */
  readonly podName?: string;
}

/** Why the API server does not ask. */
export type Unasked = "off" | "homeless" | "outside";

/** The same, for the beginning of a message. */
export const UNASKED: Readonly<Record<Unasked, string>> = {
  off: "the mode of AdmissionServer is Off",
  homeless: "the namespace of this installation does not exist",
  outside: "this process runs outside of the cluster, and AdmissionServer has no url",
};

/**
 * Why `Auto` does not let the API server ask; `undefined` when it may. A user who runs Berth from a terminal gives a URL:
 * without a namespace Berth cannot store certificates, and its own Service leads to pods alone.
 *
 * @param hasPolicies the API server may evaluate the rules itself, and need not reach Berth.
 */
export function whyUnasked(
  { spec, namespace, inCluster = true }: AdmissionSettings,
  hasPolicies: boolean,
): Unasked | undefined {
  if (spec.mode === "Off") return "off";
  if (spec.mode !== "Auto" || spec.url !== undefined) return undefined;
  // The last replica finds the other pods in the namespace when it ends, and turns the policies off.
  if (hasPolicies) return namespace === undefined ? "homeless" : undefined;
  if (spec.certificates !== undefined) return undefined;
  if (namespace === undefined) return "homeless";
  return inCluster || spec.service !== undefined ? undefined : "outside";
}
