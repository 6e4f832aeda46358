/** The cluster's own certificate authority. Keys are EC P-256; everything it signs is for tests on one machine. */
// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 finds its own parts through what it installs
import "reflect-metadata";
import { generateKeyPairSync, webcrypto } from "node:crypto";
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** Issues certificates that the clients of a cluster trust. */
export interface CertificateAuthority {
  /** PEM, for clients that must trust what this authority signed. */
  readonly certificate: string;
  /** A server certificate for these DNS names and IP addresses. */
  issueServing(hosts: readonly string[]): Promise<KeyPair>;
  /** A client certificate: the API server reads the user from CN and the groups from O. */
  issueClient(user: string, groups: readonly string[]): Promise<KeyPair>;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A detached cluster may stay up for long; a year is also what kubeadm gives its leaf certificates. */
const VALID_MS = 365 * DAY_MS;

/** A new authority, valid for a year. */
export async function createAuthority(): Promise<CertificateAuthority> {
  const keys = await generateKeys();
  const root = await X509CertificateGenerator.createSelfSigned({
    name: [{ CN: ["berth-testcluster"] }],
    keys,
    signingAlgorithm: ALGORITHM,
    ...validity(),
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
    ],
  });
  const issue = async (subject: readonly Attribute[], extensions: readonly Extension[]): Promise<KeyPair> => {
    const own = await generateKeys();
    const certificate = await X509CertificateGenerator.create({
      subject: [...subject],
      issuer: root.subjectName,
      publicKey: own.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: ALGORITHM,
      ...validity(),
      extensions: [new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true), ...extensions],
    });
    return { certificate: certificate.toString("pem"), key: await toPem(own.privateKey) };
  };
  return {
    certificate: root.toString("pem"),
    issueServing: (hosts) =>
      issue(
        [{ CN: [hosts[0] ?? "localhost"] }],
        [
          new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
          new SubjectAlternativeNameExtension(
            hosts.map((value) => ({ type: /^[\d.]+$|:/.test(value) ? "ip" : "dns", value })),
          ),
        ],
      ),
    issueClient: (user, groups) =>
      issue(
        [{ CN: [user] }, ...groups.map((group) => ({ O: [group] }))],
        [new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth])],
      ),
  };
}

/** The key pair that signs service account tokens; the API server and the controller manager share it. */
export function createServiceAccountKeys(): { readonly privateKey: string; readonly publicKey: string } {
  return generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
}

/** One part of a subject; several values in one part would be a single multi-valued name. */
type Attribute = Record<string, string[]>;

/** Starts an hour ago: containers and virtual machines whose clocks lag must still accept it. */
function validity(): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - DAY_MS / 24), notAfter: new Date(now + VALID_MS) };
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

async function toPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = await webcrypto.subtle.exportKey("pkcs8", key);
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join("\n")}\n-----END PRIVATE KEY-----\n`;
}
