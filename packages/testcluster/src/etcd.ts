/** The little of etcd that tests need, through its JSON gateway. */
import { request } from "undici";

/**
 * Throws away the history of the store: every revision older than the present one.
 *
 * @param port etcd's client port on 127.0.0.1
 * @returns the present revision, which is also the newest resourceVersion the API server has handed out.
 */
export async function compact(port: number): Promise<string> {
  const { header } = await post(port, "/v3/maintenance/status", {});
  await post(port, "/v3/kv/compaction", { revision: header.revision, physical: true });
  return header.revision;
}

interface Answer {
  readonly header: { readonly revision: string };
}

async function post(port: number, path: string, body: object): Promise<Answer> {
  const answer = await request(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
  const text = await answer.body.text();
  // Nothing was written since the last compaction: the history is already gone.
  if (/required revision has been compacted/.test(text)) return { header: { revision: "" } };
  if (answer.statusCode !== 200)
    throw new Error(`etcd ${path} answered ${answer.statusCode}: ${text.slice(0, 500)}`);
  const parsed: unknown = JSON.parse(text);
  if (!isAnswer(parsed)) throw new Error(`etcd ${path} answered without a revision: ${text.slice(0, 500)}`);
  return parsed;
}

function isAnswer(value: unknown): value is Answer {
  const header = (value as Partial<Answer> | null)?.header;
  return typeof header?.revision === "string";
}
