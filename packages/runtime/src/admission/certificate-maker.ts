/**
 * Writes certificates. Import it lazily: its library takes longer to load than all else of a program. Only this file
 * imports the library, so that a bundler finds one static import.
 */
// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 finds its own parts through what it installs
import "reflect-metadata";
import { createPrivateKey, webcrypto } from "node:crypto";
import { isIP } from "node:net";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

/** A certificate and the private key that belongs to it, both PEM. */
export interface CertificatePair {
  /** The certificate; the chain to the authority may follow. */
  readonly certificate: string;
  /** Without a passphrase. */
  readonly key: string;
}

/** Start and end of validity, in whole seconds. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** An authority that signs serving certificates and no further authorities. */
export async function makeAuthority(commonName: string, validity: Validity): Promise<CertificatePair> {
  const keys = await generateKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [commonName] }],
    keys,
    signingAlgorithm: ALGORITHM,
    ...validity,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, key: await toPem(keys.privateKey) };
}

/** @throws Error when the authority is invalid or its key is not EC P-256. */
export async function makeServingCertificate(
  authority: CertificatePair,
  hosts: readonly string[],
  validity: Validity,
): Promise<CertificatePair> {
  const issuer = new X509Certificate(authority.certificate);
  const keys = await generateKeys();
  const certificate = await X509CertificateGenerator.create({
    // Clients check only the hosts, and a common name is too short for the DNS name of a Service.
    subject: [{ CN: ["webhook"] }],
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    signingAlgorithm: ALGORITHM,
    ...validity,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value })),
      ),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return { certificate: `${certificate.toString("pem")}\n`, key: await toPem(keys.privateKey) };
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
  const own = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return own.export({ type: "pkcs8", format: "pem" }) as string;
}
