import type { CertificatePair } from "./certificate-authority.ts";

/** The source of a server's certificate. It may change at any time; call it at each new connection. */
export interface CertificateSource {
  /**
   * Returns the same object until the certificate changes. `undefined` before the first one; afterwards the last good
   * one, even if it has expired (`problem` says so).
   */
  current(): CertificatePair | undefined;
  /**
   * The certificates (PEM) that clients have to trust. `undefined` before the first certificate, and for an unknown
   * authority, which clients must trust already.
   */
  caBundle(): string | undefined;
  /** Why clients cannot connect, or soon cannot, in a sentence; `undefined` without a problem. */
  problem(): string | undefined;
}
