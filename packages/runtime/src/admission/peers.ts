/** Identifies clients: by address, or as an API server that shows its certificate. */
import type { IncomingMessage } from "node:http";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { shareConnections } from "./room.ts";

/** For all clients without a certificate. An API server opens one per call, and answers some 200 writes at once. */
export const MAX_CONNECTIONS = 512;

/**
 * Bounds the connections of each address. Returns the peer of a request: its address, or `undefined` for a verified
 * client certificate, which has no such bound. A connection with another certificate is closed.
 */
export function watchPeers(server: Server): (request: IncomingMessage) => string | undefined {
  const places = new Map<string, Disposable>();
  const verified = new WeakSet<Socket>();
  shareConnections(server, MAX_CONNECTIONS, (socket, place) => {
    const end = endOf(socket);
    places.set(end, place);
    socket.once("close", () => places.delete(end));
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    // Check this first: OpenSSL treats a resumed session as verified even if no certificate was ever shown.
    if (socket.getPeerX509Certificate() === undefined) return;
    if (!socket.authorized) {
      server.emit("tlsClientError", new Error(`client certificate: ${socket.authorizationError}`), socket);
      socket.destroy();
      return;
    }
    verified.add(socket);
    places.get(endOf(socket))?.[Symbol.dispose]();
  });
  return ({ socket }) => (verified.has(socket) ? undefined : (socket.remoteAddress ?? ""));
}

function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
