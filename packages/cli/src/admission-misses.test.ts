import type { Node } from "@berth/kube";
import { compileGates, startupGateSpec } from "@berth/placement";
import type { Change } from "@berth/runtime";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createMissWatch, type MissWatch } from "./admission-misses.ts";

const spec = startupGateSpec.parse({ nodeSelector: { matchLabels: { pool: "a" } }, minimumHold: "1s" });
const gates = compileGates({ sources: [{ source: "config", documents: [{ name: "net", spec }] }] });
const gated = "startup.k8s.io/initializing=wait:NoSchedule";

/** A watch that nodes come to. */
async function watching(isRelied: boolean): Promise<
  {
    readonly watch: MissWatch;
    readonly tell: (change: Change<Node>) => void;
    readonly changes: string[];
  } & AsyncDisposable
> {
  const handlers = new Set<{ onChange(change: Change<Node>): void }>();
  const changes: string[] = [];
  const watch = createMissWatch({
    nodes: {
      subscribe(handler) {
        handlers.add(handler);
        return { [Symbol.dispose]: () => void handlers.delete(handler) };
      },
    },
    gates: () => gates,
    isRelied: () => isRelied,
    onChange: () => changes.push(watch.problem() ?? "none"),
  });
  const stop = new AbortController();
  const running = await watch.component.start(stop.signal);
  return {
    watch,
    changes,
    tell: (change) => {
      for (const handler of handlers) handler.onChange(change);
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running.ended;
      expect(handlers.size).toBe(0);
    },
  };
}

const selected = aNode("n1").labelled({ pool: "a" });
const added = (object: Node, initial = false): Change<Node> => ({ type: "added", object, initial });

describe("nodes that come without the taint", () => {
  it("are told, until one comes with it", async () => {
    await using it = await watching(true);
    it.tell(added(selected.build()));
    expect(it.watch.problem()).toMatch(/^n1 came without the taint of net: /);
    it.tell(added(selected.tainted(gated).build()));
    expect(it.watch.problem()).toBeUndefined();
    expect(it.changes).toHaveLength(2);
  });

  it.each([
    ["a gate does not select them", true, added(aNode("n1").build())],
    ["they were there before", true, added(selected.build(), true)],
    [
      "the taint has been taken off",
      true,
      { type: "updated", object: selected.build(), old: selected.tainted(gated).build() },
    ],
    ["nothing is to be relied upon yet", false, added(selected.build())],
  ] as const)("are as they should be when %s", async (_, isRelied, change) => {
    await using it = await watching(isRelied);
    it.tell(change);
    expect(it.watch.problem()).toBeUndefined();
    expect(it.changes).toEqual([]);
  });
});
