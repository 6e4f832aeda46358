import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { TlsOptions } from "node:tls";

/** What a TLS server shows to its clients. */
export interface ServingCertificate {
  /** PEM: the certificate, then those that lead to what clients trust. */
  readonly certificate: string;
  /** PEM of its private key, without a passphrase. */
  readonly key: string;
}

/** Which certificate a server serves, and which of its connections still have an earlier one. */
export interface ServingContext {
  /** There is a certificate: handshakes can succeed. */
  readonly usable: boolean;
  /** Asks whether there is another certificate. Never throws. */
  refresh(): void;
  /** The connection was made with a certificate that is not served any more. */
  isOutdated(socket: Socket): boolean;
}

/**
 * Serves whatever `certificate` gives, asked at each new connection before its handshake; SNI is not needed, as clients
 * that connect to an IP address send none. Other content means a new TLS context: session tickets of the earlier one are
 * not taken. `undefined` makes handshakes fail; a pair that OpenSSL does not take is reported once, and the one before
 * stays; so is what `certificate` throws, each time.
 *
 * Connections made with an earlier certificate are left to the caller, who is to end them after an answer. Closing them
 * while they are idle would lose the calls that are on their way, and the API server sends no POST a second time.
 */
export function serveCertificate(
  server: Server,
  tls: TlsOptions,
  certificate: () => ServingCertificate | undefined,
  onProblem: (error: unknown) => void,
): ServingContext {
  const generations = new WeakMap<Socket, number>();
  let generation = 0;
  let seen: ServingCertificate | undefined;
  let usable = false;
  const refresh = (): void => {
    try {
      const wanted = certificate();
      if (wanted?.certificate === seen?.certificate && wanted?.key === seen?.key) return;
      seen = wanted;
      // node:tls takes an empty text for one that is not given.
      if (wanted?.certificate === "" || wanted?.key === "") throw new TypeError("the PEM text is empty");
      server.setSecureContext({ ...tls, ...(wanted && { cert: wanted.certificate, key: wanted.key }) });
      usable = wanted !== undefined;
    } catch (error) {
      return onProblem(error);
    }
    generation += 1;
  };
  // Before the listener of node:tls, which takes the context that is set by then.
  server.prependListener("connection", refresh);
  server.on("secureConnection", (socket) => generations.set(socket, generation));
  refresh();
  return {
    get usable() {
      return usable;
    },
    refresh,
    isOutdated: (socket) => generations.get(socket) !== generation,
  };
}
