import { type AddressInfo, createServer, type Server } from "node:net";

/**
 * Below the range from which Linux (32768–60999) and macOS (49152–65535) take the source ports of outgoing
 * connections: a port found there could be taken by anybody's next connection before the server opens it.
 */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;
const ATTEMPTS = 100;

/**
 * A TCP port that nothing listens on at 127.0.0.1 right now. Nothing keeps it: two callers get the same one with a
 * probability of about 1 in 12,000, and a caller that starts a server on it must be ready to ask for another.
 */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT));
    if (await isFree(port)) return port;
  }
  throw new Error(`no free TCP port found between ${FIRST_PORT} and ${LAST_PORT} on 127.0.0.1`);
}

/** Can a server be opened on this port of 127.0.0.1 right now? */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Listens on a port of 127.0.0.1 that the system chooses. Rejects when it gives none. */
export function listenOnLoopback(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
}

/** The port that a listening server has. */
export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
