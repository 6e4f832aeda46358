import { styleFor } from "@berth/host";
import { Trace } from "@berth/placement";
import { expect, it } from "vitest";
import { formatSummary, formatTrace, RuleCount } from "./trace.ts";

const plain = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });

function traceOf(isGpu: boolean) {
  const trace = new Trace("cluster/gpu");
  const note = trace.for("cluster/gpu", "label/gpu");
  trace.for("cluster/other", "label/other")?.({ what: "never", holds: false });
  const parts = [
    { what: "label x Exists", value: "1", holds: true },
    { what: "label gpu Exists", holds: isGpu },
    { what: "any of", holds: "unknown", parts: [{ what: "label y Exists", holds: "unknown" }] },
  ] as const;
  note?.({ what: "all of", holds: isGpu ? "unknown" : false, parts });
  return { capability: "labels", rule: "cluster/gpu", marks: [], places: trace.found };
}

it("shows each comparison, the value, and how it came out", () => {
  expect(formatTrace(traceOf(false), plain)).toBe(`rule cluster/gpu wants nothing on the node
label/gpu
  NO        all of
  yes         label x Exists     1
  NO          label gpu Exists
  unknown     any of
  unknown       label y Exists
`);
});

it("counts for many nodes what failed first", () => {
  const count = new RuleCount();
  for (const [node, isGpu] of [
    ["a", false],
    ["b", false],
    ["c", true],
  ] as const)
    count.add(node, traceOf(isGpu));
  count.add("d", { ...traceOf(true), marks: ["label/gpu"] });
  expect(count.summaries().map((it) => formatSummary(it, plain))).toEqual([
    `rule cluster/gpu wants something on 1 of 4 nodes
  FAILED FIRST       NODES
  label gpu Exists   2 (a, b)
  any of             1 (c)
`,
  ]);
});
