import { styleFor } from "@berth/host";
import { aNode } from "@berth/testcluster";
import { expect, it } from "vitest";
import { contradictionOf } from "./explain.ts";
import { formatContradiction, formatPod } from "./show.ts";

const style = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const label = "kubernetes.io/arch";

it("a node whose label says another architecture than its kubelet says which of them is used for what", () => {
  const contradiction = contradictionOf(
    aNode("n")
      .arm64()
      .labelled({ [label]: "amd64" })
      .build(),
  );
  expect(contradiction).toEqual({ nodeInfo: "arm64", label: "amd64" });
  expect(contradiction && formatContradiction(contradiction, style)).toMatch(
    /status.nodeInfo +arm64: berth uses it.*\n +kubernetes.io\/arch +amd64: the scheduler uses this label/,
  );
});

it.each([
  [
    "say the same",
    aNode("n")
      .arm64()
      .labelled({ [label]: "arm64" })
      .build(),
  ],
  ["are not both there", { metadata: { labels: { [label]: "arm64" } } }],
])("a node whose label and kubelet %s has no contradiction", (_, node) => {
  expect(contradictionOf(node)).toBeUndefined();
});

it.each([
  [true, "pod default/web\n  policy    none governs it\n  verdict   any: ArchitectureOptedOut: no policy\n"],
  [false, "pod default/web\n"],
])("a pod that none governs says so only where there are policies: %s", (hasPolicies, expected) => {
  const lists = { images: [], otherGates: [], missingTolerations: [], nodes: [] };
  const any = { verdict: "any", reason: "ArchitectureOptedOut", message: "no policy" } as const;
  expect(formatPod({ pod: "default/web", ...any, ...lists }, style, hasPolicies)).toBe(expected);
});
