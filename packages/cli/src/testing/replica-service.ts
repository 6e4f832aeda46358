import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** As the Service does: each connection leads to the replica that is chosen at that time. */
export async function startService(): Promise<
  { readonly port: number; readonly lead: (port: number) => void } & AsyncDisposable
> {
  let target = 0;
  const open = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(target, "127.0.0.1");
    for (const [a, b] of [
      [from, to],
      [to, from],
    ] as const) {
      open.add(a);
      a.on("error", () => b.destroy()).on("close", () => b.destroy());
      a.pipe(b);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    lead: (port) => void (target = port),
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of open) socket.destroy();
      await once(server, "close");
    },
  };
}
