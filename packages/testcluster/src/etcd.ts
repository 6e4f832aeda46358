/** The little of etcd that tests need, through its JSON gateway. */
import { callServer } from "./server-call.ts";

/**
 * Throws away the history of the store: every revision older than the present one.
 *
 * @param port etcd's client port on 127.0.0.1
 * @returns the present revision, which is also the newest resourceVersion the API server has handed out.
 */
export async function compact(port: number): Promise<string> {
  const etcd = `http://127.0.0.1:${port}`;
  const revision = revisionIn(await callServer({ url: `${etcd}/v3/maintenance/status`, body: {} }));
  try {
    await callServer({ url: `${etcd}/v3/kv/compaction`, body: { revision, physical: true } });
  } catch (error) {
    // Nothing was written since the last compaction, so there is no history.
    if (!(error instanceof Error && error.message.includes("required revision has been compacted")))
      throw error;
  }
  return revision;
}

function revisionIn(text: string): string {
  const answer: unknown = JSON.parse(text);
  const revision = (answer as { readonly header?: { readonly revision?: unknown } } | null)?.header?.revision;
  if (typeof revision !== "string")
    throw new Error(`etcd answered without a revision: ${text.slice(0, 500)}`);
  return revision;
}
