import type { IncomingMessage } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { type ClientSide, forwardableHeaders } from "./client-side.ts";
import type { Reply } from "./interceptor.ts";

/** Milliseconds an idle connection is kept: shorter than the 90 s of kube-apiserver, so it never closes one on us. */
const IDLE_CONNECTION_MS = 30_000;

/** The real server, reached over HTTP/1.1: one connection for each request or watch under way. */
export class Upstream {
  readonly #target: URL;
  readonly #agent: Agent;
  readonly #under: string | RegExp;

  constructor(target: URL, ca: string, under: string | RegExp = "") {
    this.#target = target;
    this.#under = under;
    this.#agent = new Agent({ ca, keepAlive: true, timeout: IDLE_CONNECTION_MS });
  }

  /** The path and query at the target. */
  pathOf({ path }: ClientSide): string {
    if (typeof this.#under !== "string") return path.replace(this.#under, "");
    return path.startsWith(`${this.#under}/`) ? path.slice(this.#under.length) : path;
  }

  /**
   * Sends the client's request on, its body streamed. Resolves when the head of the answer has come, and with a cut
   * when there is none. Aborting breaks the request off, unless its answer has been read to the end.
   *
   * @param inJson without protobuf, where the client takes JSON as well: the proxy reads the answer.
   */
  forward(client: ClientSide, signal: AbortSignal, inJson: boolean): Promise<Reply> {
    return new Promise((resolve) => {
      const cut = (cause?: Error): void =>
        resolve({ kind: "cut", scope: "stream", ...(cause === undefined ? {} : { cause }) });
      if (signal.aborted) return cut();
      let response: IncomingMessage | undefined;
      const upstream = httpsRequest({
        agent: this.#agent,
        host: this.#target.hostname,
        port: this.#target.port || 443,
        method: client.method,
        path: this.pathOf(client),
        headers: this.#headersFor(client, inJson),
      });
      upstream.on("error", cut);
      upstream.once("response", (message) => {
        response = message;
        message.on("error", () => {});
        resolve({
          kind: "forwarded",
          status: message.statusCode ?? 0,
          headers: message.headers,
          body: message,
        });
      });
      signal.addEventListener("abort", () => {
        if (!response) upstream.destroy();
        else if (!response.readableEnded) response.destroy();
      });
      if (client.hasBody) client.body.pipe(upstream);
      else upstream.end();
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  #headersFor(client: ClientSide, inJson: boolean): Record<string, string | string[]> {
    const headers = forwardableHeaders(client.headers);
    const { accept } = headers;
    const others =
      typeof accept === "string" ? accept.split(",").filter((it) => !it.includes("protobuf")) : [];
    if (inJson && others.length > 0) headers["accept"] = others.join();
    headers["host"] = this.#target.host;
    if (client.hasBody && headers["content-length"] === undefined) headers["transfer-encoding"] = "chunked";
    return headers;
  }
}
