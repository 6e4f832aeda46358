/** Requests of kubectl that our client has no use for. */
import { request } from "node:https";

/** Where an API server is, and a token of a user who may do everything. */
export interface Server {
  readonly url: string;
  readonly ca: string;
  readonly adminToken: string;
}

export type Verdict =
  | { readonly accepted: true; readonly object: Readonly<Record<string, unknown>> }
  | { readonly accepted: false; readonly message: string };

/**
 * Asks the API server whether it would take this object; nothing is stored. As with kubectl, field validation is strict
 * and refuses a field that the schema does not have.
 *
 * @throws Error when it gives no verdict.
 */
export async function tryToCreate(cluster: Server, path: string, object: object): Promise<Verdict> {
  const asked = `${path}?dryRun=All&fieldValidation=Strict`;
  const { status, body } = await send(cluster, asked, { method: "POST", body: JSON.stringify(object) });
  if (status === 201) return { accepted: true, object: body };
  if (status === 422 || status === 400) return { accepted: false, message: String(body["message"]) };
  throw new Error(`${status}: ${String(body["message"])}`);
}

/** The rows and columns that `kubectl get` shows. */
export interface Table {
  readonly columnDefinitions: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

export async function tableOf(cluster: Server, path: string): Promise<Table> {
  const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
  const { body } = await send(cluster, path, { method: "GET", accept });
  return body as unknown as Table;
}

interface Sent {
  readonly method: string;
  readonly accept?: string;
  readonly body?: string;
}

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

function send({ url, ca, adminToken }: Server, path: string, sent: Sent): Promise<Answer> {
  const { method, accept = "application/json", body } = sent;
  const headers = { authorization: `Bearer ${adminToken}`, accept, "content-type": "application/json" };
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const asked = request(`${url}${path}`, { method, ca, headers });
  asked.on("error", reject);
  asked.on("response", (answer) => {
    const chunks: Buffer[] = [];
    answer.on("error", reject);
    answer.on("data", (chunk: Buffer) => chunks.push(chunk));
    answer.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) as Answer["body"] });
    });
  });
  asked.end(body);
  return promise;
}
