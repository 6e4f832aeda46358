/**
 * Stands before a registry server and notes each request before it passes it on. The access log of the server itself
 * has a request only some time after its answer, which is too late to count by. It also ends TLS, and its port is one
 * that no other process can take while the server behind it starts.
 */
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Server } from "node:net";
import { pipeline } from "node:stream/promises";
import type { KeyPair } from "../certificates.ts";
import { type RequestLog, readRequest } from "./request-log.ts";

export interface FrontOptions {
  /** On 127.0.0.1. */
  readonly port: number;
  /** Unix socket of the server behind. */
  readonly socket: string;
  readonly log: RequestLog;
  readonly tls?: KeyPair;
}

/** Open from the moment it is there; disposing refuses and breaks off all connections. */
export type Front = AsyncDisposable;

/** Rejects with EADDRINUSE when another process has the port. */
export async function openFront(options: FrontOptions): Promise<Front> {
  const { port, socket, log, tls } = options;
  const agent = new Agent({ keepAlive: true });
  const answer = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    void passOn({ incoming, outgoing, agent, socket, log });
  };
  const server = tls
    ? createTlsServer({ cert: tls.certificate, key: tls.key }, answer)
    : createServer(answer);
  await listen(server, port);
  return {
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      agent.destroy();
      await closed;
    },
  };
}

interface Exchange {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly agent: Agent;
  readonly socket: string;
  readonly log: RequestLog;
}

/** Never rejects: whichever side breaks off, the other sees its connection broken off. */
async function passOn({ incoming, outgoing, agent, socket, log }: Exchange): Promise<void> {
  const { method = "GET", url = "/", headers } = incoming;
  const note = log.add(readRequest(method, url, headers));
  const inner = request({ agent, socketPath: socket, method, path: url, headers });
  outgoing.once("close", () => inner.destroy());
  try {
    const [reply] = await Promise.all([headOf(inner), pipeline(incoming, inner)]);
    note(reply.statusCode ?? 0);
    outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
    await pipeline(reply, outgoing);
  } catch {
    outgoing.destroy();
  }
}

function headOf(inner: ReturnType<typeof request>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    inner.once("response", resolve);
    inner.once("error", reject);
    inner.once("close", () => reject(new Error("broken off")));
  });
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => {
      server.off("error", reject);
      resolve();
    });
  });
}
