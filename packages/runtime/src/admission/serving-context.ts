import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { TlsOptions } from "node:tls";

/** The certificate that a TLS server shows to clients. */
export interface ServingCertificate {
  /** PEM: the certificate, then the chain to an authority that clients trust. */
  readonly certificate: string;
  /** PEM of its private key, without a passphrase. */
  readonly key: string;
}

/** Which certificate a server serves, and which of its connections still have an earlier one. */
export interface ServingContext {
  /** A certificate exists, so handshakes can succeed. */
  readonly usable: boolean;
  /** Looks for a new certificate. Never throws. */
  refresh(): void;
  /** Whether the connection was made with an earlier certificate. */
  isOutdated(socket: Socket): boolean;
}

/**
 * Serves the certificate that `certificate` returns, called at each new connection before its handshake. SNI is not
 * needed, because clients that connect to an IP address send none. A changed certificate means a new TLS context, which
 * rejects session tickets of the earlier one. `undefined` makes handshakes fail. A pair that OpenSSL rejects is
 * reported once, and the earlier one stays. Each error that `certificate` throws is reported too.
 *
 * The caller ends connections with an earlier certificate after an answer. Closing idle ones would lose calls on their
 * way, and the API server does not repeat a POST.
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
      // node:tls treats an empty text like a missing one.
      if (wanted?.certificate === "" || wanted?.key === "") throw new TypeError("the PEM text is empty");
      server.setSecureContext({ ...tls, ...(wanted && { cert: wanted.certificate, key: wanted.key }) });
      usable = wanted !== undefined;
    } catch (error) {
      return onProblem(error);
    }
    generation += 1;
  };
  // Runs before the listener of node:tls, which uses the context that is set by then.
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
