/**
 * Makes a certificate authority and the serving certificates that it signs, and reads certificates that others made.
 * Keys are EC P-256. The library that writes certificates is loaded by the first one made, and never by a program that
 * makes none; reading needs only Node's own.
 */
import { createPrivateKey, webcrypto, X509Certificate } from "node:crypto";
import { isIP } from "node:net";

/** A certificate and the private key that belongs to it, both PEM. */
export interface CertificatePair {
  /** May go on with the certificates that lead to the authority. */
  readonly certificate: string;
  readonly key: string;
}

/** Of a new authority. */
export interface AuthorityOptions {
  /** The beginning of its common name; the time when it was made follows. At most 40 characters, default `webhook`. */
  readonly name?: string;
  /** Wall time, ms since the epoch. */
  readonly nowMs: number;
  /** Default ten years, as kubeadm gives its authorities. */
  readonly validMs?: number;
}

/** Of a new serving certificate. */
export interface ServingOptions {
  /** Whose key signs. An EC P-256 key, as `createAuthority` makes. */
  readonly authority: CertificatePair;
  /** DNS names and IP addresses that clients may call the server by; at least one. */
  readonly hosts: readonly string[];
  /** Wall time, ms since the epoch. */
  readonly nowMs: number;
  /** Default 90 days. */
  readonly validMs?: number;
}

/** What a certificate says of itself. */
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
/** Certificates begin an hour before they are made: a server whose clock lags must still accept them. */
export const BACKDATED_MS: number = 60 * 60 * 1000;

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** A new authority with a key of its own, which may sign serving certificates and no further authorities. */
export async function createAuthority(options: AuthorityOptions): Promise<CertificatePair> {
  const { name = "webhook", nowMs, validMs = DEFAULT_AUTHORITY_VALID_MS } = options;
  const x509 = await loadX509();
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // Two authorities of one name would leave a verifier to try the keys of both.
    name: [{ CN: [`${name} ${new Date(nowMs).toISOString()}`] }],
    keys,
    signingAlgorithm: ALGORITHM,
    ...validity(nowMs, validMs),
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, key: await toPem(keys.privateKey) };
}

/**
 * A new serving certificate with a key of its own. It may outlive its authority, and is worth nothing then: the caller
 * chooses an authority that lasts.
 * @throws RangeError without hosts; Error when the authority is garbage or its key is not EC P-256.
 */
export async function issueServingCertificate(options: ServingOptions): Promise<CertificatePair> {
  const { authority, hosts, nowMs, validMs = DEFAULT_SERVING_VALID_MS } = options;
  if (hosts.length === 0) throw new RangeError("a serving certificate needs at least one host");
  const x509 = await loadX509();
  const issuer = new x509.X509Certificate(authority.certificate);
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    // Clients look at the hosts only, and a common name is too short for the DNS name of a Service.
    subject: [{ CN: ["webhook"] }],
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    signingAlgorithm: ALGORITHM,
    ...validity(nowMs, validMs),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, key: await toPem(keys.privateKey) };
}

/** What the first certificate of a PEM text says; `undefined` when there is none that can be read. Never throws. */
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

/** The first certificate of a PEM text; `undefined` when it cannot be read. */
export function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";
/** Certificates read of one text. A bundle of all public authorities has about 150. */
const MAX_CERTIFICATES = 200;

/** The certificates of a PEM text that can be read, in order, the first 200 at most. What is between them is ignored. */
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

/** Did this authority sign the certificate? Its dates are not looked at. */
export function isSignedBy(certificate: X509Certificate, authority: X509Certificate): boolean {
  try {
    return certificate.checkIssued(authority) && certificate.verify(authority.publicKey);
  } catch {
    return false;
  }
}

/** Which of these hosts a client could not call the server by. Wildcards of the certificate count as TLS has it. */
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

async function loadX509(): Promise<typeof import("@peculiar/x509")> {
  // Before it: the library finds its own parts through what this installs.
  await import("reflect-metadata");
  return await import("@peculiar/x509");
}

/** Certificates know whole seconds. */
function validity(nowMs: number, validMs: number): { notBefore: Date; notAfter: Date } {
  const secondMs = Math.floor(nowMs / 1000) * 1000;
  return { notBefore: new Date(secondMs - BACKDATED_MS), notAfter: new Date(secondMs + validMs) };
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
  return webcrypto.subtle.importKey("pkcs8", der, ALGORITHM, false, ["sign"]);
}

async function toPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" }).export({
    type: "pkcs8",
    format: "pem",
  }) as string;
}
