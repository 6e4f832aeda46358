import { Agent, request } from "undici";

export interface ServerCall {
  readonly url: string;
  /** PEM; for https. */
  readonly ca?: string;
  readonly token?: string;
  /** Sent as JSON with POST; absent: GET. */
  readonly body?: object;
  readonly signal?: AbortSignal;
}

/**
 * One request over a connection of its own, for what the cluster itself asks its components: nothing of a client's
 * pooling or retries is in the way. Resolves with the body.
 *
 * @throws Error when there is no answer or it is not 200.
 */
export async function callServer({ url, ca, token, body, signal }: ServerCall): Promise<string> {
  const agent = new Agent(ca === undefined ? {} : { connect: { ca } });
  try {
    const answer = await request(url, {
      dispatcher: agent,
      method: body === undefined ? "GET" : "POST",
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      ...(signal ? { signal } : {}),
    });
    const text = await answer.body.text();
    if (answer.statusCode === 200) return text;
    throw new Error(`${url} answered ${answer.statusCode}: ${text.slice(0, 500)}`);
  } finally {
    await agent.destroy();
  }
}
