/** A controller in as few lines as it takes, right or with one of the faults that perturbations are there to find. */
import { isApiError, type KubeClient, type Node, nodes } from "@berth/kube";

export const INPUT = "tiny/input";
export const OUTPUT = "tiny/output";
/** Says that OUTPUT is ours. */
export const RECORD = "tiny/record";

export interface TinyFaults {
  /** Writes without a condition, whatever the object has become since it was seen. */
  readonly unguarded?: boolean;
  /** Remembers what is its own in memory only. */
  readonly forgetful?: boolean;
  /** After a lost watch, goes on from now without looking at what it has missed. */
  readonly looksNotBack?: boolean;
  /** Does nothing at all. */
  readonly idle?: boolean;
}

/** Sets OUTPUT on nodes that have INPUT, and removes its own OUTPUT from those that have not. */
export function startTinyController(client: KubeClient, faults: TinyFaults = {}): AsyncDisposable {
  const stop = new AbortController();
  const running = run(client, faults, stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await client.close();
    },
  };
}

async function run(client: KubeClient, faults: TinyFaults, signal: AbortSignal): Promise<void> {
  const owned = new Set<string>();
  let first = true;
  while (!signal.aborted) {
    try {
      const { items, metadata } = await client.list(nodes, { signal });
      if (first || faults.looksNotBack !== true) {
        for (const node of items) await reconcile(client, node, { faults, owned });
      }
      first = false;
      const { resourceVersion = "" } = metadata;
      await using watch = await client.watch(nodes, { resourceVersion, signal });
      for await (const event of watch) {
        if (event.type === "ADDED" || event.type === "MODIFIED")
          await reconcile(client, event.object, { faults, owned });
      }
    } catch (error) {
      if (!isApiError(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

interface Mind {
  readonly faults: TinyFaults;
  readonly owned: Set<string>;
}

async function reconcile(client: KubeClient, node: Node, { faults, owned }: Mind): Promise<void> {
  const { name = "", uid = "", resourceVersion, labels = {}, annotations = {} } = node.metadata ?? {};
  const wanted = labels[INPUT] !== undefined;
  const stands = labels[OUTPUT] !== undefined;
  const isOurs = faults.forgetful === true ? owned.has(uid) : annotations[RECORD] !== undefined;
  if (faults.idle === true || wanted === stands || (!wanted && !isOurs)) return;
  const guard = faults.unguarded === true ? {} : { uid, resourceVersion };
  const record = faults.forgetful === true ? {} : { annotations: { [RECORD]: wanted ? "yes" : null } };
  const body = { metadata: { ...guard, ...record, labels: { [OUTPUT]: wanted ? "true" : null } } };
  try {
    await client.patch(nodes, { name }, { type: "merge", body });
    if (wanted) owned.add(uid);
  } catch (error) {
    // A newer version is on its way, or the node is gone: either is told by the watch.
    if (!isApiError(error, "conflict", "notFound")) throw error;
  }
}
