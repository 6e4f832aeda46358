import {
  createSilentLogger,
  createVirtualClock,
  type ReconcileResult,
  type VirtualClock,
} from "@berth/runtime";
import type { BoundCapability } from "../capability.ts";
import { NodeWriter, type NodeWriterOptions } from "../writer.ts";
import type { OneNode } from "./server.ts";

export interface WriterUnderTest {
  readonly world: OneNode;
  readonly clock: VirtualClock;
  readonly writer: NodeWriter;
  /** One look at the node, as the cache shows it. */
  readonly run: () => Promise<ReconcileResult | undefined>;
  /** One look at the node as it is. */
  readonly look: () => Promise<ReconcileResult | undefined>;
}

/** A writer for one node, on a virtual clock. */
export function writerOf(
  world: OneNode,
  capabilities: readonly BoundCapability[],
  more: Partial<Omit<NodeWriterOptions, "clock">> & { readonly clock?: VirtualClock } = {},
): WriterUnderTest {
  const { clock = createVirtualClock(), ...options } = more;
  const { api, cache, events } = world;
  const common = { nodes: cache, api, capabilities, installation: "berth", clock, events };
  const writer = new NodeWriter({ ...common, ...options });
  const log = createSilentLogger();
  const run = () => writer.reconcile(world.key, { signal: new AbortController().signal, log });
  const look = () => {
    world.observe();
    return run();
  };
  return { world, clock, writer, run, look };
}
