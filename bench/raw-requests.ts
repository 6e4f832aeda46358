import { Pool } from "undici";
import type { RawTarget } from "./raw-patches.ts";

export interface RawRequest {
  readonly method: "POST" | "PATCH" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly body: object;
}

/** What came back, and when: `performance.now` once the whole answer was here. */
export interface RawAnswer {
  readonly sentAt: number;
  readonly answeredAt: number;
  /** Text of the answer; empty unless it was asked for. */
  readonly text: string;
}

export interface RawSender extends AsyncDisposable {
  /** The audit log knows its requests by it. */
  readonly userAgent: string;
  /** @throws when it is refused. */
  send(request: RawRequest, options?: { readonly read?: boolean }): Promise<RawAnswer>;
  /** All of them, as many in flight as there are connections; answers in the order of the requests. */
  sendAll(requests: readonly RawRequest[]): Promise<readonly RawAnswer[]>;
}

/** HTTP/1.1 connections that send what they are given as fast as the server takes it; patches are merge patches. */
export function openRawSender(
  target: RawTarget,
  { connections, userAgent }: { readonly connections: number; readonly userAgent: string },
): RawSender {
  const pool = new Pool(target.url, { connections, connect: { ca: target.ca }, allowH2: false });
  const common = { authorization: `Bearer ${target.token}`, "user-agent": userAgent };
  const send: RawSender["send"] = async ({ method, path, body }, { read = false } = {}) => {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const text = JSON.stringify(body);
    const sentAt = performance.now();
    const answer = await pool.request({
      method,
      path,
      headers: { ...common, "content-type": type },
      body: text,
    });
    const refused = answer.statusCode >= 300;
    const said = read || refused ? await answer.body.text() : "";
    if (!read && !refused) await answer.body.dump({ limit: 1024 * 1024 });
    if (refused) throw new Error(`${method} ${path}: HTTP ${answer.statusCode}: ${said.slice(0, 500)}`);
    return { sentAt, answeredAt: performance.now(), text: said };
  };
  return {
    userAgent,
    send,
    async sendAll(requests) {
      const answers: RawAnswer[] = [];
      const left = requests.entries();
      const work = async (): Promise<void> => {
        for (const [index, request] of left) answers[index] = await send(request);
      };
      await Promise.all(Array.from({ length: connections }, work));
      return answers;
    },
    [Symbol.asyncDispose]: () => pool.close(),
  };
}
