import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect } from "vitest";

/** A server on 127.0.0.1 and its connections. */
export interface Echo extends AsyncDisposable {
  readonly port: number;
  readonly sockets: Set<Socket>;
}

/** A server that sends back what it receives and closes when its peer does. */
export async function startEcho(): Promise<Echo> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
    socket.pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** A client that keeps what it receives and says how its connection ended. */
export class Client implements Disposable {
  readonly socket: Socket;
  readonly closed: Promise<void>;
  #chunks: Buffer[] = [];
  ended = false;
  errorCode: string | undefined;

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    this.closed = new Promise((resolve) => this.socket.once("close", () => resolve()));
    this.socket.on("data", (chunk: Buffer) => this.#chunks.push(chunk));
    this.socket.on("end", () => (this.ended = true));
    this.socket.on("error", (error: NodeJS.ErrnoException) => (this.errorCode = error.code));
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await Promise.race([once(this.socket, "data"), once(this.socket, "end"), this.closed]);
    }
  }

  /** Resolves with what has been received once it is as long as `text`. */
  async read(text: string): Promise<string> {
    await this.until(() => this.received.length >= text.length);
    return this.received.toString();
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** Sends a text, and expects to have received this by then. Default: that text alone. */
export async function echoes(client: Client, text: string, received: string = text): Promise<void> {
  client.socket.write(text);
  expect(await client.read(received)).toBe(received);
}
