/** The ways in which a server can answer other than it should. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";

export type Fault =
  /** Another status, with no body. */
  | { readonly does: "status"; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** Nothing, until the fault is over or the client has gone. Then the answer. */
  | { readonly does: "silence" }
  /** Half of the body, then nothing until the fault is over or the client has gone. */
  | { readonly does: "stall" }
  /** Half of the body, then the end of the connection. */
  | { readonly does: "truncate" }
  /** The end of the connection before any answer. */
  | { readonly does: "reset" }
  /** Bytes that are not HTTP. */
  | { readonly does: "babble"; readonly bytes?: Buffer }
  /** A body of nonsense under the right headers, or without a digest header. */
  | { readonly does: "garbage"; readonly bytes?: Buffer }
  /** The right headers, and a body that differs in one byte. */
  | { readonly does: "tamper" }
  /** The right body, and headers set, or taken away where `undefined`. */
  | { readonly does: "headers"; readonly headers: Readonly<Record<string, string | undefined>> }
  /** A body compressed unasked, of as many bytes when unpacked. */
  | { readonly does: "gzip"; readonly bytes: number }
  /** As many bytes, announced by Content-Length or not. */
  | { readonly does: "flood"; readonly bytes: number; readonly announced: boolean }
  /** Somewhere else: an absolute or relative URL. */
  | { readonly does: "redirect"; readonly to: string; readonly status?: number }
  /** To itself, each time with another number (`endless`), or back and forth. */
  | { readonly does: "circle"; readonly endless?: boolean };

/** What would be answered. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

const CHUNK = Buffer.alloc(64 * 1024, 0x20);

/** @param over settles when the fault is over. */
export async function answerBadly(
  fault: Fault,
  reply: Reply,
  path: string,
  response: ServerResponse,
  over: Promise<void>,
): Promise<void> {
  const away = once(response, "close").catch(() => undefined);
  switch (fault.does) {
    case "status":
      return answer(response, { status: fault.status, headers: fault.headers ?? {}, body: Buffer.alloc(0) });
    case "silence":
      await Promise.race([over, away]);
      return answer(response, reply);
    case "stall":
      response.writeHead(reply.status, reply.headers).write(half(reply));
      await Promise.race([over, away]);
      response.end(reply.body.subarray(half(reply).length));
      return;
    case "truncate":
      response.writeHead(reply.status, reply.headers).write(half(reply), () => response.socket?.destroy());
      return;
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "babble":
      response.socket?.end(fault.bytes ?? "SSH-2.0-OpenSSH_9.9\r\n");
      return;
    case "garbage":
      return answer(
        response,
        without(reply, fault.bytes ?? Buffer.from("<html>welcome to the hotel</html>")),
      );
    case "tamper":
      return answer(response, {
        ...reply,
        body: Buffer.concat([reply.body.subarray(0, -1), Buffer.from(" ")]),
      });
    case "headers":
      return answer(response, { ...reply, headers: merged(reply.headers, fault.headers) });
    case "gzip": {
      const body = gzipSync(Buffer.alloc(fault.bytes, 0x20));
      const headers = { "content-encoding": "gzip", "content-length": `${body.length}` };
      return answer(response, { ...reply, headers: { ...reply.headers, ...headers }, body });
    }
    case "flood":
      return flood(response, reply, fault, away);
    case "redirect":
      return answer(response, {
        status: fault.status ?? 307,
        headers: { location: fault.to },
        body: Buffer.alloc(0),
      });
    case "circle": {
      const turn = Number(/[?&]turn=(\d+)/.exec(path)?.[1] ?? 0) + 1;
      const location = `${path.split("?", 1)[0] ?? path}?turn=${fault.endless ? turn : turn % 2}`;
      return answer(response, { status: 307, headers: { location }, body: Buffer.alloc(0) });
    }
  }
}

export function answer(response: ServerResponse, { status, headers, body }: Reply): void {
  response.writeHead(status, headers).end(body);
}

function half({ body }: Reply): Buffer {
  return body.subarray(0, Math.floor(body.length / 2));
}

function without({ status, headers }: Reply, body: Buffer): Reply {
  const { "docker-content-digest": _digest, ...rest } = headers;
  return { status, headers: { ...rest, "content-length": `${body.length}` }, body };
}

function merged(
  headers: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const kept = Object.entries({ ...headers, ...changes }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  return Object.fromEntries(kept);
}

/** No faster than the client reads, and no longer. */
async function flood(
  response: ServerResponse,
  { status, headers }: Reply,
  { bytes, announced }: { readonly bytes: number; readonly announced: boolean },
  away: Promise<unknown>,
): Promise<void> {
  const { "content-length": _length, "docker-content-digest": _digest, ...rest } = headers;
  response.writeHead(status, announced ? { ...rest, "content-length": `${bytes}` } : rest);
  for (let sent = 0; sent < bytes && !response.destroyed; sent += CHUNK.length) {
    if (!response.write(CHUNK.subarray(0, bytes - sent))) await Promise.race([once(response, "drain"), away]);
  }
  response.end();
}
