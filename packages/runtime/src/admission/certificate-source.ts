import type { CertificatePair } from "./certificate-authority.ts";

/** Where a server finds the certificate that it shows. It may change at any time; ask at each new connection. */
export interface CertificateSource {
  /**
   * The same object until there is another certificate. `undefined` while there has been none; after that the last
   * good one, also when it has expired (`problem` says so).
   */
  current(): CertificatePair | undefined;
  /**
   * The certificates (PEM) that clients have to trust. `undefined` when there is no certificate yet, and when nothing
   * is known about its authority, which then has to be one that clients trust anyway.
   */
  caBundle(): string | undefined;
  /** Why clients cannot be served, or soon cannot, in a sentence; `undefined` when all is well. */
  problem(): string | undefined;
}
