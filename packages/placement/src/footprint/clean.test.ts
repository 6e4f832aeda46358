import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { FootprintKeepers } from "./clean.ts";
import { compileFootprints } from "./compile.ts";
import { nodeFootprintSpec } from "./document.ts";
import { type Footprint } from "./footprint.ts";

function aFootprint(name: string): Footprint {
  const spec = nodeFootprintSpec.parse({
    workloads: [{ podSelector: { matchLabels: { app: name } } }],
    node: { label: { key: `example.com/${name}` } },
  });
  const { footprints } = compileFootprints({ sources: [{ source: "cluster", documents: [{ name, spec }] }] });
  const [footprint] = footprints;
  if (footprint === undefined) throw new Error("it has a fault");
  return footprint;
}

/** @param by installation, by rule. */
function aNode(by: Readonly<Record<string, string>>, capability = "footprint"): Node {
  const marks = Object.entries(by).map(([rule, installation]) => [
    `label/example.com/${rule}`,
    { c: capability, r: rule, since: "2026-01-01T00:00:00Z", by: installation },
  ]);
  const record = { v: 1, by: "berth", marks: Object.fromEntries(marks) };
  return { metadata: { name: "n", annotations: { "berth.dev/marks": JSON.stringify(record) } } };
}

describe("whose a footprint is", () => {
  const otherOf = (...nodes: readonly Node[]): string | undefined => {
    const keepers = new FootprintKeepers("berth");
    for (const node of nodes) keepers.add(node);
    return keepers.otherOf(aFootprint("agent"));
  };

  it("is told by the marks on nodes, as long as none is ours", () => {
    expect(otherOf(aNode({ "cluster/agent": "other" }))).toBe("other");
    expect(otherOf(aNode({ "cluster/agent": "other" }), aNode({ "cluster/agent": "berth" }))).toBeUndefined();
  });

  it("is not told by marks of other rules or capabilities, or by no record at all", () => {
    expect(otherOf(aNode({ "cluster/else": "other" }))).toBeUndefined();
    expect(otherOf(aNode({ "cluster/agent": "other" }, "labels"))).toBeUndefined();
    expect(otherOf({ metadata: { name: "n" } })).toBeUndefined();
  });
});
