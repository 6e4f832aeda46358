/** Records every state that the labels of nodes ever had, so that a test can say that a label never flapped. */
import { isApiError, type KubeClient, type Node, nodes } from "@berth/kube";
import { eventually } from "@berth/testcluster";

export interface NodeHistory extends AsyncDisposable {
  /** How often each label of a node went away or changed its value, by key. */
  lossesOf(node: string): ReadonlyMap<string, number>;
  /** Resolves when the history reaches this version of the node. */
  reaches(node: Node): Promise<void>;
}

interface Track {
  uid: string | undefined;
  resourceVersion: string;
  labels: Readonly<Record<string, string>>;
  readonly losses: Map<string, number>;
}

/**
 * Resolves when the present nodes are known. A watch delivers every version of a node; when the server has ended it
 * and forgotten the version (a restart), what it says next is compared with what it said last.
 */
export async function recordNodes(client: KubeClient): Promise<NodeHistory> {
  const tracks = new Map<string, Track>();
  const stop = new AbortController();
  const started = Promise.withResolvers<void>();
  const running = follow(client, tracks, { signal: stop.signal, onSnapshot: started.resolve });
  await Promise.race([started.promise, running]);
  return {
    lossesOf: (node) => tracks.get(node)?.losses ?? new Map(),
    reaches: (node) =>
      eventually(() => {
        const { name = "", resourceVersion = "" } = node.metadata ?? {};
        const seen = tracks.get(name)?.resourceVersion ?? "0";
        if (BigInt(seen) < BigInt(resourceVersion))
          throw new Error(`${name} was seen at ${seen} and not at ${resourceVersion}`);
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

async function follow(
  client: KubeClient,
  tracks: Map<string, Track>,
  { signal, onSnapshot }: { readonly signal: AbortSignal; readonly onSnapshot: () => void },
): Promise<void> {
  let from: string | undefined;
  while (!signal.aborted) {
    try {
      const where = from === undefined ? { sendInitialEvents: true } : { resourceVersion: from };
      await using watch = await client.watch(nodes, { ...where, signal });
      for await (const event of watch) {
        if (event.type !== "BOOKMARK") note(tracks, event.type, event.object);
        else if (event.initialEventsEnd) onSnapshot();
        if (event.type === "BOOKMARK") from = event.resourceVersion;
        else if (from !== undefined) from = event.object.metadata?.resourceVersion ?? from;
      }
    } catch (error) {
      if (signal.aborted || !isApiError(error)) break;
      if (error.failure.kind === "expired") from = undefined;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function note(tracks: Map<string, Track>, type: "ADDED" | "MODIFIED" | "DELETED", node: Node): void {
  const { name = "", uid, resourceVersion = "0", labels = {} } = node.metadata ?? {};
  const track = tracks.get(name);
  if (type === "DELETED") tracks.delete(name);
  else if (track === undefined || track.uid !== uid) {
    tracks.set(name, { uid, resourceVersion, labels, losses: new Map() });
  } else {
    for (const [key, value] of Object.entries(track.labels)) {
      if (labels[key] !== value) track.losses.set(key, (track.losses.get(key) ?? 0) + 1);
    }
    track.labels = labels;
    track.resourceVersion = resourceVersion;
  }
}
