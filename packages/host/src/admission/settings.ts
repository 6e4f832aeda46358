/** `AdmissionServer`: how new objects are changed before they are stored. A document of files only; at most one. */
import path from "node:path";
import { parseBindAddress } from "@berth/runtime";
import * as z from "zod";
import { type DocumentKind, onlyOne } from "../documents/document-kind.ts";

export interface AdmissionServerSpec {
  /** `Auto` takes policies where the API server has them, and a webhook elsewhere. Default. */
  readonly mode: "Auto" | "Policy" | "Webhook" | "Off";
  /** Where the webhook listens, with TLS. Default `:8443`. */
  readonly bindAddress: string;
  /** Folder with `tls.crt`, `tls.key` and, to keep `caBundle` right, `ca.crt`. Absent: Berth makes its own and keeps them. */
  readonly certificates?: string | undefined;
  /**
   * PEM file of the authorities that sign the client certificates of API servers, and of nothing else. Absent: no API server
   * is asked for one, and all share the webhook with whoever is at their address.
   */
  readonly clientCertificateAuthority?: string | undefined;
  /** The Service by which the API server finds the webhook. Default: Berth's own, in its namespace. */
  readonly service?: { readonly namespace: string; readonly name: string; readonly port: number } | undefined;
  /** Where the API server finds it instead of by a Service: `https://berth.example:8443`. */
  readonly url?: string | undefined;
  /** A webhook configuration that is there: only its caBundle is kept right. Absent: Berth makes its own. */
  readonly configuration?: { readonly name: string; readonly webhook: string } | undefined;
  /** What becomes of a new Node that nobody can be asked about. Default `Ignore`. */
  readonly failurePolicy: "Ignore" | "Fail";
  /**
   * The same of a new Pod, where an architecture policy has Berth asked about it. `Fail`: outside of kube-system no pod can
   * be made while Berth is away. Default `Ignore`.
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

/** What holds without a document. */
export const defaultAdmissionServer: AdmissionServerSpec = admissionServerSpec.parse({});

export interface AdmissionSettings {
  readonly spec: AdmissionServerSpec;
  /** Where the certificates are; absent: there is no such namespace, and Berth makes none. */
  readonly namespace?: string;
  /** PEM of `spec.clientCertificateAuthority`. */
  readonly clientAuthority?: string;
  /** Of this replica, to tell the others from it. Absent: it is no pod, and alone. */
  readonly podName?: string;
}

/**
 * Why the API server does not ask about anything; `undefined` when it may. A Berth without a namespace has nowhere to keep
 * certificates: it is run from a terminal, and not asked.
 */
export function whyUnasked({ spec, namespace }: AdmissionSettings): "off" | "homeless" | undefined {
  if (spec.mode === "Off") return "off";
  const isHomeless = spec.mode === "Auto" && namespace === undefined && spec.certificates === undefined;
  return isHomeless ? "homeless" : undefined;
}
