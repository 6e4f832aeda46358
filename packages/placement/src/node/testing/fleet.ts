import {
  createSilentLogger,
  createVirtualClock,
  type ReconcileResult,
  type VirtualClock,
} from "@berth/runtime";
import { RemovalBreakers } from "../breaker.ts";
import type { BoundCapability, RemovalPolicy } from "../capability.ts";
import { labelId, ownValue } from "../mark.ts";
import { type OneNode, oneNode } from "./server.ts";
import { policyOf, wish } from "./stub.ts";
import { makeNode } from "./world.ts";
import { writerOf } from "./writer.ts";

export const RULE = "made-up/rule";

/** Wants `out` on nodes that carry `in`. */
function careful(removal: () => RemovalPolicy | undefined): BoundCapability {
  return {
    name: "a",
    inputs: () => [],
    contribute: ({ node }) => {
      const policy = removal();
      const holds = ownValue(node.metadata?.labels, "in") !== undefined;
      return {
        capability: "a",
        policy: policyOf({ ...(policy && { removals: new Map([[RULE, policy]]) }) }),
        decision: { marks: holds ? [wish(labelId("out"), "1")] : [], keep: new Map(), findings: [] },
      };
    },
  };
}

export const isLabelled = ({ node }: OneNode): boolean => node.metadata?.labels?.["out"] === "1";

/** Nodes that carry `in` and, after the first look, `out`; with one writer for all. */
export interface Fleet {
  readonly worlds: readonly OneNode[];
  readonly clock: VirtualClock;
  readonly breakers: RemovalBreakers;
  /** `made-up/rule frozen`, `made-up/rule free` */
  readonly changes: readonly string[];
  readonly look: (world: OneNode) => Promise<ReconcileResult | undefined>;
  readonly lookAtAll: () => Promise<void>;
  /** They lose `in`, and their removals have waited for this long. */
  readonly lose: (gone: readonly OneNode[], waitMs: number) => Promise<void>;
  readonly regain: (back: readonly OneNode[]) => void;
  readonly labelled: () => number;
}

export async function fleet(count: number, removal: () => RemovalPolicy | undefined): Promise<Fleet> {
  const clock = createVirtualClock();
  const worlds = Array.from({ length: count }, (_, at) =>
    oneNode(makeNode({ name: `n${at}`, labels: { in: "1" } })),
  );
  const byName = new Map(worlds.map((world) => [world.key.name, world]));
  const changes: string[] = [];
  const breakers = new RemovalBreakers((rule, frozen) =>
    changes.push(`${rule} ${frozen ? "frozen" : "free"}`),
  );
  const at = (name: string): OneNode => {
    const world = byName.get(name);
    if (world === undefined) throw new Error(`no node ${name}`);
    return world;
  };
  const { writer } = writerOf(at("n0"), [careful(removal)], {
    nodes: { get: (key) => byName.get(key.name)?.cache.get(key) },
    api: {
      patch: (name, ...request) => at(name).api.patch(name, ...request),
      read: (name, signal) => at(name).api.read(name, signal),
    },
    clock,
    breakers,
  });
  const look: Fleet["look"] = async (world) => {
    world.observe();
    const { signal } = new AbortController();
    const result = await writer.reconcile(world.key, { signal, log: createSilentLogger() });
    world.observe();
    return result;
  };
  const lookAtAll = async () => {
    for (const world of worlds) await look(world);
  };
  const lose = async (gone: readonly OneNode[], waitMs: number) => {
    for (const world of gone) world.edit({ labels: { in: null } });
    await lookAtAll();
    await clock.advance(waitMs);
    await lookAtAll();
  };
  const regain = (back: readonly OneNode[]): void => {
    for (const world of back) world.edit({ labels: { in: "1" } });
  };
  const labelled = () => worlds.filter(isLabelled).length;
  await lookAtAll();
  await lookAtAll();
  return { worlds, clock, breakers, changes, look, lookAtAll, lose, regain, labelled };
}
