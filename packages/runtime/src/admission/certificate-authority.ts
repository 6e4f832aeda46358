/**
 * Makes a certificate authority and its serving certificates, and reads any certificates. Keys are EC P-256. The first
 * certificate made loads the library that writes certificates, so other programs never load it. Reading needs only
 * Node's own modules.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import type { CertificatePair, Validity } from "./certificate-maker.ts";

export type { CertificatePair } from "./certificate-maker.ts";

/** Options of a new authority. */
export interface AuthorityOptions {
  /** Start of its common name, before the time of creation. At most 40 characters, default `webhook`. */
  readonly name?: string;
  /** Wall time, ms since the epoch. */
  readonly nowMs: number;
  /** Default ten years, as kubeadm gives its authorities. */
  readonly validMs?: number;
}

/** Options of a new serving certificate. */
export interface ServingOptions {
  /** The authority that signs. Its key is EC P-256, as `createAuthority` makes it. */
  readonly authority: CertificatePair;
  /** DNS names and IP addresses that clients may call the server by; at least one. */
  readonly hosts: readonly string[];
  /** Wall time, ms since the epoch. */
  readonly nowMs: number;
  /** Default 90 days. */
  readonly validMs?: number;
}

/** The fields that are read from a certificate. */
export interface CertificateFacts {
  /** Valid from then on, ms since the epoch, whole seconds. */
  readonly notBeforeMs: number;
  /** Valid until then, ms since the epoch, whole seconds. */
  readonly notAfterMs: number;
  /** Its DNS names and IP addresses. */
  readonly hosts: readonly string[];
  /** It may sign other certificates. */
  readonly isAuthority: boolean;
}

const DAY_MS = 24 * 60 * 60 * 1000;
export const DEFAULT_AUTHORITY_VALID_MS: number = 3650 * DAY_MS;
export const DEFAULT_SERVING_VALID_MS: number = 90 * DAY_MS;
/** Certificates begin an hour before they are made, so that machines with a late clock accept them too. */
export const BACKDATED_MS: number = 60 * 60 * 1000;

/** A new authority with a key of its own, which may sign serving certificates and no further authorities. */
export async function createAuthority(options: AuthorityOptions): Promise<CertificatePair> {
  const { name = "webhook", nowMs, validMs = DEFAULT_AUTHORITY_VALID_MS } = options;
  const { makeAuthority } = await import("./certificate-maker.ts");
  // With two authorities of one name a verifier would have to try the keys of both.
  return await makeAuthority(`${name} ${new Date(nowMs).toISOString()}`, validity(nowMs, validMs));
}

/**
 * A new serving certificate with its own key. It is useless after its authority has expired, so the caller chooses an
 * authority that lasts.
 * @throws RangeError without hosts; Error when the authority is invalid or its key is not EC P-256.
 */
export async function issueServingCertificate(options: ServingOptions): Promise<CertificatePair> {
  const { authority, hosts, nowMs, validMs = DEFAULT_SERVING_VALID_MS } = options;
  if (hosts.length === 0) throw new RangeError("a serving certificate needs at least one host");
  const { makeServingCertificate } = await import("./certificate-maker.ts");
  return await makeServingCertificate(authority, hosts, validity(nowMs, validMs));
}

/** The facts of the first certificate of a PEM text; `undefined` when none can be read. Never throws. */
export function inspectCertificate(pem: string): CertificateFacts | undefined {
  const certificate = parseCertificate(pem);
  return certificate === undefined ? undefined : factsOf(certificate);
}

/** As `inspectCertificate`, of a certificate that has been parsed. */
export function factsOf(certificate: X509Certificate): CertificateFacts {
  return {
    notBeforeMs: certificate.validFromDate.getTime(),
    notAfterMs: certificate.validToDate.getTime(),
    hosts: hostsIn(certificate.subjectAltName ?? ""),
    isAuthority: certificate.ca,
  };
}

/** The first certificate of a PEM text; `undefined` when it cannot be read, or its dates cannot. */
export function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    const certificate = new X509Certificate(pem);
    const { notBeforeMs, notAfterMs } = factsOf(certificate);
    return Number.isFinite(notBeforeMs) && Number.isFinite(notAfterMs) ? certificate : undefined;
  } catch {
    return undefined;
  }
}

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";
/** Certificates read from one text. A bundle of all public authorities has about 150. */
const MAX_CERTIFICATES = 200;

/** The readable certificates of a PEM text, in order, the first 200 at most. Ignores any text between them. */
export function parseBundle(pem: string): readonly X509Certificate[] {
  const found: X509Certificate[] = [];
  let blocks = 0;
  for (let from = pem.indexOf(BEGIN); from >= 0 && blocks < MAX_CERTIFICATES; blocks++) {
    const end = pem.indexOf(END, from);
    if (end < 0) break;
    const certificate = parseCertificate(pem.slice(from, end + END.length));
    if (certificate !== undefined) found.push(certificate);
    from = pem.indexOf(BEGIN, end);
  }
  return found;
}

/** One PEM text of these certificates. */
export function toBundle(certificates: readonly X509Certificate[]): string {
  return certificates.map((certificate) => `${certificate.toString().trim()}\n`).join("");
}

/** Does this private key (PEM) belong to the certificate? `false` for garbage. */
export function belongsTogether(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/** Did this authority sign the certificate? Ignores its dates. */
export function isSignedBy(certificate: X509Certificate, authority: X509Certificate): boolean {
  try {
    return certificate.checkIssued(authority) && certificate.verify(authority.publicKey);
  } catch {
    return false;
  }
}

/** The hosts that the certificate does not cover. Its wildcards match by the rules of TLS. */
export function missingHosts(certificate: X509Certificate, hosts: readonly string[]): readonly string[] {
  const covers = (host: string): boolean =>
    isIP(host) === 0
      ? certificate.checkHost(host, { subject: "never" }) !== undefined
      : certificate.checkIP(host) !== undefined;
  return hosts.filter((host) => !covers(host));
}

/** Is this a private key that `issueServingCertificate` can sign with? */
export function isSigningKey(key: string): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(key);
    return asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1";
  } catch {
    return false;
  }
}

/** `DNS:a.svc, IP Address:127.0.0.1`, with a JSON string for a name that holds a comma or a quote. */
function hostsIn(subjectAltName: string): readonly string[] {
  const entries = subjectAltName.matchAll(/(?:DNS|IP Address):("(?:[^"\\]|\\.)*"|[^,]*)/g);
  return [...entries].map(([, text = ""]) => (text.startsWith('"') ? unquote(text) : text));
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Certificates store times in whole seconds. */
function validity(nowMs: number, validMs: number): Validity {
  const secondMs = Math.floor(nowMs / 1000) * 1000;
  return { notBefore: new Date(secondMs - BACKDATED_MS), notAfter: new Date(secondMs + validMs) };
}
