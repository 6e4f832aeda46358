import { once } from "node:events";
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { findFreePort, isFree } from "./ports.ts";

it("findFreePort finds a port that a server can be opened on, which is then no longer free", async () => {
  const port = await findFreePort();
  expect(port).toBeLessThan(32_768);
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  expect(await isFree(port)).toBe(false);
  server.close();
  await once(server, "close");
  expect(await isFree(port)).toBe(true);
});
