import { createServer } from "node:net";

/** A TCP port of 127.0.0.1 on which nobody listens; somebody else may take it before it is used. */
export async function freePort(): Promise<number> {
  await using server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
