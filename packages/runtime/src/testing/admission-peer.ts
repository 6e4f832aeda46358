/** The other side of an admission server: an authority that a client trusts, and clients, polite and rude. */
import { once } from "node:events";
import { Agent, request } from "node:https";
import { connect, type TLSSocket } from "node:tls";
import {
  type CertificatePair,
  createAuthority,
  issueServingCertificate,
} from "../admission/certificate-authority.ts";
import { type AdmissionServerOptions, startAdmissionServer } from "../admission/server.ts";
import { createSilentLogger } from "../json-log.ts";

/** An authority, and the certificates for 127.0.0.1 that it signs. */
export interface ServingAuthority {
  readonly ca: string;
  issue(): Promise<CertificatePair>;
}

/** A new authority, valid from now on. */
export async function createServingAuthority(): Promise<ServingAuthority> {
  const nowMs = Date.now();
  const authority = await createAuthority({ nowMs });
  return {
    ca: authority.certificate,
    issue: () => issueServingCertificate({ authority, hosts: ["127.0.0.1"], nowMs }),
  };
}

/** What came back. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Of the certificate that the server showed. */
  readonly serialNumber: string;
}

/** What to send, and over which connection: default a new one. */
export interface Call {
  readonly method?: string;
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly agent?: Agent;
}

/** A client that trusts one authority. */
export interface AdmissionPeer extends AsyncDisposable {
  readonly port: number;
  /** Sends a body by POST, nothing by GET. Rejects when no answer comes. */
  call(path: string, call?: Call): Promise<Answer>;
  /** A connection of its own, its handshake done, on which nothing has been said. */
  open(): Promise<TLSSocket>;
  /** Connections that are kept open between calls. */
  keepAlive(): Agent & Disposable;
  /** Stops the server. */
  stop(): Promise<void>;
}

/** Starts a server with a certificate of the authority, unless `options` say otherwise, and a client of it. */
export async function startAdmissionPeer(
  authority: ServingAuthority,
  options: Partial<AdmissionServerOptions>,
): Promise<AdmissionPeer> {
  const own = await authority.issue();
  const server = await startAdmissionServer({
    bindAddress: "127.0.0.1:0",
    certificate: () => own,
    handlers: {},
    ready: () => true,
    log: createSilentLogger(),
    ...options,
  });
  const { ca } = authority;
  const port = Number(new URL(server.url).port);
  const stop = async (): Promise<void> => server[Symbol.asyncDispose]();
  return {
    port,
    call: (path, call = {}) => send(new URL(path, server.url), ca, call),
    async open() {
      const socket = connect({ host: "127.0.0.1", port, ca });
      await once(socket, "secureConnect");
      socket.on("error", () => undefined);
      return socket;
    },
    keepAlive() {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      return Object.assign(agent, { [Symbol.dispose]: () => agent.destroy() });
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function send(url: URL, ca: string, { body, headers = {}, agent, ...call }: Call): Promise<Answer> {
  const method = call.method ?? (body === undefined ? "GET" : "POST");
  const type = body === undefined ? {} : { "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const sent = request(url, { ca, method, headers: { ...type, ...headers }, agent: agent ?? false });
    sent.on("error", reject);
    sent.on("response", (response) => {
      const { serialNumber } = (response.socket as TLSSocket).getPeerCertificate();
      const chunks: Uint8Array[] = [];
      response.on("data", (chunk: Uint8Array) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(chunks).toString(),
          headers: response.headers,
          serialNumber,
        }),
      );
    });
    sent.end(body);
  });
}
