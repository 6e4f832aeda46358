import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Node } from "@berth/kube";
import { type Clock, type Informer, sleep } from "@berth/runtime";

/** After the Nodes are read: most starts have written by then what they had to. Milliseconds. */
const AFTER_MS = 20_000;
/** The process stands still meanwhile: some 40 ms for this much. A larger heap is left to V8. Bytes. */
const MOST_BYTES = 128 * 1024 * 1024;

/**
 * Collects once what a start leaves, a quarter of the heap with 5,000 Nodes. V8 would keep it for as long as nothing
 * happens.
 */
export async function collectStartGarbage(
  nodes: Pick<Informer<Node>, "whenSynced">,
  {
    clock,
    signal,
    heap = nodeHeap,
  }: { readonly clock: Clock; readonly signal: AbortSignal; readonly heap?: Heap },
): Promise<void> {
  if (!(await nodes.whenSynced(signal)) || !(await sleep(clock, AFTER_MS, signal))) return;
  if (heap.usedBytes() < MOST_BYTES) heap.collect();
}

interface Heap {
  usedBytes(): number;
  collect(): void;
}

const nodeHeap: Heap = { usedBytes: () => process.memoryUsage().heapUsed, collect: collectAll };

/** Node offers the collector to programs that were started with this flag; a new context has it afterwards as well. */
export function collectAll(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof collect === "function") collect();
}
