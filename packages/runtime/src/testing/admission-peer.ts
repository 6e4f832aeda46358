/** The other side of an admission server: an authority that a client trusts, and clients, polite and rude. */
import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import {
  type CertificatePair,
  createAuthority,
  issueServingCertificate,
} from "../admission/certificate-authority.ts";
import { type AdmissionServerOptions, startAdmissionServer } from "../admission/server.ts";
import { systemClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";

/** An authority, and the certificates for 127.0.0.1 that it signs. */
export interface ServingAuthority {
  readonly ca: string;
  issue(): Promise<CertificatePair>;
}

/** A new authority, valid from now on. */
async function createServingAuthority(): Promise<ServingAuthority> {
  const nowMs = systemClock.now();
  const authority = await createAuthority({ nowMs });
  return {
    ca: authority.certificate,
    issue: () => issueServingCertificate({ authority, hosts: ["127.0.0.1"], nowMs }),
  };
}

/** A response, as it is on the wire. */
export interface Response {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What came back, over a connection to whom. */
export interface Answer extends Response {
  /** Of the certificate that the server showed. */
  readonly serialNumber: string;
}

/** What to send. */
export interface Call {
  /** Default POST with a body, GET without. */
  readonly method?: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly from?: Origin;
}

/** Who connects. Default: 127.0.0.1, without a certificate. */
export interface Origin {
  /** `127.0.0.2` */
  readonly localAddress?: string;
  readonly certificate?: CertificatePair;
  /** Of an earlier connection. */
  readonly session?: Buffer;
}

/** Keeps its connection open between calls, and makes a new one when the server has closed it. */
export interface KeptConnection extends Disposable {
  call(path: string, call?: Call): Promise<Answer>;
}

/** A client that trusts one authority, and the server that it talks to. Disposing stops both. */
export interface AdmissionPeer extends AsyncDisposable {
  readonly port: number;
  /** Over a connection of its own. Rejects when no answer comes. */
  call(path: string, call?: Call): Promise<Answer>;
  keep(): KeptConnection;
  /** A connection whose handshake is done, and over which nothing has been said. */
  open(from?: Origin): Promise<TLSSocket>;
  /** Stops the server. */
  stop(): Promise<void>;
}

let made: Promise<ServingAuthority> | undefined;

/** The authority of all peers, made when it is first asked for. */
export function servingAuthority(): Promise<ServingAuthority> {
  made ??= createServingAuthority();
  return made;
}

/** Starts a server, with a certificate of the authority unless `options` say otherwise, and a client of it. */
export async function startAdmissionPeer(
  options: Partial<AdmissionServerOptions> = {},
): Promise<AdmissionPeer> {
  const authority = await servingAuthority();
  const own = await authority.issue();
  const server = await startAdmissionServer({
    bindAddress: "127.0.0.1:0",
    certificate: () => own,
    handlers: {},
    ready: () => true,
    log: createSilentLogger(),
    ...options,
  });
  const port = Number(new URL(server.url).port);
  const open = async ({ certificate, ...from }: Origin = {}): Promise<TLSSocket> => {
    const own = certificate && { cert: certificate.certificate, key: certificate.key };
    const socket = connect({ host: "127.0.0.1", port, ca: authority.ca, ...from, ...own });
    await once(socket, "secureConnect");
    // A caller that waits for something learns of an error by `close`, which follows it.
    return socket.on("error", () => undefined);
  };
  const stop = async (): Promise<void> => server[Symbol.asyncDispose]();
  return {
    port,
    async call(path, call) {
      const socket = await open(call?.from);
      try {
        return await exchange(socket, path, call);
      } finally {
        socket.destroy();
      }
    },
    keep: () => keepConnection(open),
    open,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function keepConnection(open: () => Promise<TLSSocket>): KeptConnection {
  let socket: TLSSocket | undefined;
  return {
    async call(path, call) {
      socket ??= await open();
      const answer = await exchange(socket, path, call);
      if (answer.headers["connection"] === "close") socket = void socket.destroy();
      return answer;
    },
    [Symbol.dispose]: () => void socket?.destroy(),
  };
}

async function exchange(socket: TLSSocket, path: string, call: Call = {}): Promise<Answer> {
  const { body = "", method = call.body === undefined ? "GET" : "POST", headers = {} } = call;
  const isChunked = headers["transfer-encoding"] === "chunked";
  const lines = Object.entries({
    host: "127.0.0.1",
    ...(call.body !== undefined && { "content-type": "application/json" }),
    ...(call.body !== undefined && !isChunked && { "content-length": `${Buffer.byteLength(body)}` }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const { serialNumber } = socket.getPeerCertificate();
  const framed = isChunked ? `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  const { response } = await listen(socket, `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${framed}`);
  if (response === undefined) throw new Error("the server closed the connection without an answer");
  return { ...response, ...(method === "HEAD" && { body: "" }), serialNumber };
}

/** Sends something, and takes in what comes until that is a response or the connection is closed. */
export async function listen(
  socket: TLSSocket,
  ...pieces: readonly (string | Uint8Array)[]
): Promise<{ readonly said: string; readonly response: Response | undefined }> {
  let said = "";
  const ended = Promise.withResolvers<void>();
  const isHead = String(pieces[0]).startsWith("HEAD ");
  const onData = (chunk: Buffer): void => {
    said += chunk.toString("latin1");
    if (parseResponse(said, isHead) !== undefined) ended.resolve();
  };
  const onClose = (): void => ended.resolve();
  socket.on("data", onData).on("close", onClose);
  if (socket.destroyed) ended.resolve();
  for (const piece of pieces) if (socket.writable) socket.write(piece);
  await ended.promise;
  socket.off("data", onData).off("close", onClose);
  return { said, response: parseResponse(said, isHead) };
}

/** The response that a text begins with, once it is whole: its body is as long as announced. */
function parseResponse(said: string, isHead: boolean): Response | undefined {
  const [, status, lines = ""] = /^HTTP\/1\.1 (\d{3}) [^\r]*\r\n((?:[^\r]+\r\n)*)\r\n/.exec(said) ?? [];
  if (status === undefined) return undefined;
  const headers = Object.fromEntries(
    lines.split("\r\n").map((line) => {
      const [name = "", ...value] = line.split(": ");
      return [name.toLowerCase(), value.join(": ")];
    }),
  );
  const length = isHead ? 0 : Number(headers["content-length"] ?? 0);
  const bodyAt = said.indexOf("\r\n\r\n") + 4;
  if (said.length < bodyAt + length) return undefined;
  return { status: Number(status), headers, body: said.slice(bodyAt, bodyAt + length) };
}
