/** The ports that Berth serves metrics and probes at unless it is told otherwise: one of this machine's tests has them at a time. */
import { createServer, type Server } from "node:net";
import { eventually } from "@berth/testcluster";

/** Nobody serves anything there: who listens has the others. It is given up with the process, however that ends. */
const TURN = 18_080;
const PORTS = [8080, 8081];
/** As long as the test of the guides may have them. */
const PATIENCE = { timeoutMs: 240_000, everyMs: 200 };

/**
 * Resolves once it is the caller's turn and nobody listens on the ports. Disposing lets the next one in.
 *
 * @returns the port that is somebody else's for good, when that is so.
 */
export async function usualPorts(): Promise<AsyncDisposable & { readonly taken: number | undefined }> {
  const turn = await eventually(() => listen(TURN), PATIENCE);
  let taken: number | undefined;
  for (const port of PORTS) if (!(await isFree(port))) taken ??= port;
  return { taken, [Symbol.asyncDispose]: () => close(turn) };
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen(port).catch(() => undefined);
  if (server !== undefined) await close(server);
  return server !== undefined;
}

function listen(port: number): Promise<Server> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
