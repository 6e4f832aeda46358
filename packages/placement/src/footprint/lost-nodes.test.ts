import type { Node } from "@berth/kube";
import type { Change, Component, Subscribable } from "@berth/runtime";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { followLostNodes, followTaints } from "./lost-nodes.ts";

const ready =
  (status: string) =>
  (node: Node): Node => ({
    ...node,
    status: { ...node.status, conditions: [{ type: "Ready", status }] },
  });
const node = aNode("n").with(ready("True")).build();
const silent = aNode("n").with(ready("Unknown")).build();
const unready = aNode("n").with(ready("False")).build();
const tainted = aNode("n").with(ready("True")).tainted("a:NoSchedule").build();

const added = (object: Node, initial = false): Change<Node> => ({ type: "added", object, initial });
const updated = (old: Node, object: Node): Change<Node> => ({ type: "updated", old, object });
const deleted = (object: Node): Change<Node> => ({ type: "deleted", object });

/** What it tells of these changes. */
async function told(
  follow: (nodes: Subscribable<Node>, tell: () => void) => Component,
  changes: readonly Change<Node>[],
): Promise<number> {
  let said = 0;
  const handlers = new Set<Parameters<Subscribable<Node>["subscribe"]>[0]>();
  const nodes: Subscribable<Node> = {
    subscribe(handler) {
      handlers.add(handler);
      return { [Symbol.dispose]: () => void handlers.delete(handler) };
    },
  };
  const stop = new AbortController();
  const { ended } = await follow(nodes, () => void said++).start(stop.signal);
  expect(handlers.size).toBe(1);
  for (const change of changes) for (const handler of handlers) handler.onChange(change);
  stop.abort();
  await ended;
  expect(handlers.size).toBe(0);
  return said;
}

describe("nodes of which pods may have been lost", () => {
  it.each<[string, Change<Node>, boolean]>([
    ["one that has come", added(node), true],
    ["one that has come and is silent", added(silent), false],
    ["one that was there from the beginning", added(node, true), false],
    ["one that was deleted", deleted(node), true],
    ["I-19 one that was deleted when it had long been silent", deleted(silent), true],
    ["one that has fallen silent", updated(node, silent), true],
    ["one that is heard of again", updated(silent, unready), true],
    ["not one that is only not ready", updated(node, unready), false],
    ["not one with other taints", updated(node, tainted), false],
  ])("are told: %s", async (_, change, isTold) => {
    expect(await told(followLostNodes, [change])).toBe(isTold ? 1 : 0);
  });
});

describe("nodes on which an agent may be able to run now, or no longer", () => {
  it.each<[string, Change<Node>, boolean]>([
    ["one that has come", added(node), true],
    ["one that was there from the beginning", added(node, true), false],
    ["one that was deleted", deleted(node), true],
    ["one with other taints", updated(node, tainted), true],
    ["not one that has fallen silent, without a taint for it yet", updated(node, silent), false],
  ])("are told of: %s", async (_, change, isTold) => {
    expect(await told(followTaints, [change])).toBe(isTold ? 1 : 0);
  });
});
