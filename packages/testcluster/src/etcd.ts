/** The little of etcd that tests need, through its JSON gateway. */
import { callServer } from "./server-call.ts";

/**
 * Throws away the history of the store: every revision older than the present one.
 *
 * @param port etcd's client port on 127.0.0.1
 * @returns the present revision, which is also the newest resourceVersion the API server has handed out.
 */
export async function compact(port: number): Promise<string> {
  const revision = revisionIn(await call(port, "maintenance/status", {}));
  try {
    await call(port, "kv/compaction", { revision, physical: true });
  } catch (error) {
    // Nothing was written since the last compaction, so there is no history.
    if (!(error instanceof Error && error.message.includes("required revision has been compacted")))
      throw error;
  }
  return revision;
}

/** One object of the API server as etcd stores it. Key and value are base64. */
interface StoredObject {
  readonly key: string;
  readonly value: string;
  /** Of its last write; grows with each write of any key. */
  revision: string;
}

/** Every object of the API server, by its key in base64. */
export type StoreContent = ReadonlyMap<string, StoredObject>;

/** Where the API server keeps its objects: `/registry/<resource>/[<namespace>/]<name>`. */
const FIRST_KEY = toBase64("/registry/");
const BEHIND_LAST_KEY = toBase64("/registry0");
/** The API server renews these by itself; an older value would only make it fail once. */
const KEPT_BY_SERVER: readonly string[] = [
  "/registry/masterleases/",
  "/registry/leases/kube-system/apiserver-",
];
/** etcd refuses more than 128 operations in one transaction. */
const MOST_OPERATIONS = 100;

/** Reads all objects, with their values unless `keysOnly`. */
export async function readStore(port: number, keysOnly = false): Promise<StoreContent> {
  const range = { key: FIRST_KEY, range_end: BEHIND_LAST_KEY, keys_only: keysOnly };
  const answer = JSON.parse(await call(port, "kv/range", range)) as {
    readonly kvs?: readonly {
      readonly key: string;
      readonly value?: string;
      readonly mod_revision: string;
    }[];
  };
  const objects = (answer.kvs ?? []).map(
    ({ key, value = "", mod_revision: revision }) => [key, { key, value, revision }] as const,
  );
  return new Map(objects.filter(([key]) => !KEPT_BY_SERVER.some((head) => toText(key).startsWith(head))));
}

/**
 * Makes the store what it was: objects that are new go, whatever finalizers they have, and those that changed or went
 * come back as they were. The API server tells its watches of both.
 *
 * @returns the keys of objects that were new, such as `/registry/minions/n1`.
 */
export async function restoreStore(port: number, wanted: StoreContent): Promise<readonly string[]> {
  const found = await readStore(port, true);
  const added = [...found.keys()].filter((key) => !wanted.has(key));
  const lost = [...wanted.values()].filter(({ key, revision }) => found.get(key)?.revision !== revision);
  for (const some of batches(added))
    await transaction(
      port,
      some.map((key) => ({ requestDeleteRange: { key } })),
    );
  for (const some of batches(lost)) {
    const puts = some.map(({ key, value }) => ({ requestPut: { key, value } }));
    const revision = await transaction(port, puts);
    for (const object of some) object.revision = revision;
  }
  return added.map(toText);
}

function batches<T>(all: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(all.length / MOST_OPERATIONS);
  return Array.from({ length: count }, (_, at) =>
    all.slice(at * MOST_OPERATIONS, (at + 1) * MOST_OPERATIONS),
  );
}

/** @returns the revision of what it wrote. */
async function transaction(port: number, success: readonly object[]): Promise<string> {
  return revisionIn(await call(port, "kv/txn", { success }));
}

const call = (port: number, path: string, body: object): Promise<string> =>
  callServer({ url: `http://127.0.0.1:${port}/v3/${path}`, body });

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function toText(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

function revisionIn(text: string): string {
  const answer: unknown = JSON.parse(text);
  const revision = (answer as { readonly header?: { readonly revision?: unknown } } | null)?.header?.revision;
  if (typeof revision !== "string")
    throw new Error(`etcd answered without a revision: ${text.slice(0, 500)}`);
  return revision;
}
