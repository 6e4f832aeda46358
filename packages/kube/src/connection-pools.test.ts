import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Dispatcher } from "undici";
import { expect, it } from "vitest";
import { createConnectionPools } from "./connection-pools.ts";

it("a write that was answered refers to no bytes of its headers", async () => {
  const server = createServer((_, response) => response.end("{}")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const pools = createConnectionPools({
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ca: undefined,
    serverName: undefined,
    insecure: false,
    certificate: undefined,
    silenceMs: 30_000,
    maxWriteConnections: 1,
    http2: true,
    onOpen: () => undefined,
    onClose: () => undefined,
  });
  const began: Dispatcher.DispatchController["rawHeaders"][] = [];
  const ended = Promise.withResolvers<Dispatcher.DispatchController["rawHeaders"]>();
  pools.writes.dispatch(
    { method: "PATCH", path: "/" },
    {
      onRequestStart: () => undefined,
      onResponseStart: ({ rawHeaders }) => void began.push(rawHeaders),
      onResponseData: () => undefined,
      onResponseEnd: ({ rawHeaders }) => ended.resolve(rawHeaders),
      onResponseError: (_, error) => ended.reject(error),
    },
  );
  expect(await ended.promise).toBeNull();
  expect(began).toEqual([expect.arrayContaining([expect.any(Buffer)])]);
  await pools.end("close");
  server.close();
});
