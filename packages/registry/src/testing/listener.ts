/** A server that counts who connects to it. */
import { once } from "node:events";
import { createServer } from "node:net";

/** Counts connections to all of this machine's addresses. */
export async function startListener(
  location?: string,
): Promise<AsyncDisposable & { readonly port: number; readonly connections: number }> {
  const status = location === undefined ? "404 Not Found" : `307 Temporary Redirect\r\n${location}`;
  const server = createServer((socket) => {
    listener.connections += 1;
    socket.on("error", () => undefined);
    socket.once("data", () =>
      socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`),
    );
  });
  const listener = {
    port: 0,
    connections: 0,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, "close");
    },
  };
  await once(server.listen(0), "listening");
  const address = server.address();
  listener.port = typeof address === "object" ? (address?.port ?? 0) : 0;
  return listener;
}
