import type { Node } from "@berth/kube";
import { isInitial } from "@berth/runtime";
import type { NodeHost } from "../node/wired.ts";

/** For how long after the start Berth still looks up nodes for `STARTUP_BACKFILL`. Milliseconds. */
const START_MS = 60_000;

/** Was this node there when Berth started, not long ago? */
export function followFirstNodes({
  nodes,
  clock,
}: Pick<NodeHost, "nodes" | "clock">): (node: Node) => boolean {
  // By uid: creation times have whole seconds, so a node made in the second of the start would count as older.
  const thereAtStart = new Set<string>();
  const startedMs = clock.monotonic();
  let isFirstList = true;
  nodes.subscribe({
    onChange(change) {
      if (!isFirstList) return;
      if (isInitial(change)) thereAtStart.add(change.object.metadata?.uid ?? "");
      // The informer delivers the whole first list before the first change after it.
      else if (nodes.synced) isFirstList = false;
    },
  });
  return ({ metadata }) => clock.monotonic() - startedMs < START_MS && thereAtStart.has(metadata?.uid ?? "");
}
