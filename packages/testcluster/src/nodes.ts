import { isApiError, type KubeClient, nodes } from "@berth/kube";
import { eventually } from "./eventually.ts";
import { aNode } from "./node-builder.ts";

export interface CreateNodesOptions {
  /** kwok takes charge of them. */
  readonly fake: boolean;
  readonly signal?: AbortSignal;
  /** Told whenever more of them have become Ready. */
  readonly onReady?: (ready: number) => void;
}

const IN_FLIGHT = 16;
const READY_TIMEOUT_MS = 120_000;

/** Creates `node-1` … `node-<count>`, leaving those that exist, and resolves when all of them are Ready. */
export async function createNodes(
  client: KubeClient,
  count: number,
  options: CreateNodesOptions,
): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `node-${index + 1}`);
  const left = names.values();
  await Promise.all(Array.from({ length: IN_FLIGHT }, () => createEach(client, left, options)));
  if (count === 0) return;
  const isWanted = new Set(names);
  await eventually(
    async (signal) => {
      let ready = 0;
      for await (const page of client.pages(nodes, { resourceVersion: "0", signal })) {
        for (const node of page.items) {
          const condition = node.status?.conditions?.find(({ type }) => type === "Ready");
          if (condition?.status === "True" && isWanted.has(node.metadata?.name ?? "")) ready += 1;
        }
      }
      options.onReady?.(ready);
      if (ready < count) throw new Error(`${ready} of ${count} nodes are Ready`);
    },
    { timeoutMs: READY_TIMEOUT_MS, everyMs: 200, ...(options.signal ? { signal: options.signal } : {}) },
  );
}

async function createEach(
  client: KubeClient,
  names: Iterable<string>,
  options: CreateNodesOptions,
): Promise<void> {
  for (const name of names) {
    const node = options.fake ? aNode(name).fake() : aNode(name);
    try {
      await client.create(nodes, node.build(), options.signal ? { signal: options.signal } : {});
    } catch (error) {
      if (!isApiError(error, "alreadyExists")) throw error;
    }
  }
}
