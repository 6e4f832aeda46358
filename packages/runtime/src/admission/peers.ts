/** Who connects: an address, or an API server that shows its certificate. */
import type { IncomingMessage } from "node:http";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { shareConnections } from "./room.ts";

/** Of all that show no certificate. An API server has one for each call under way, and answers some 200 writes at once. */
export const MAX_CONNECTIONS = 512;

/**
 * Bounds the connections of each address, and tells whose a request is; `undefined` for one whose client certificate is
 * verified: it is not bounded with others at its address. A connection that shows another certificate is closed.
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
    // First: OpenSSL takes a session that is resumed for verified, also when no certificate was ever shown in it.
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
