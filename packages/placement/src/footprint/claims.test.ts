/** What claims may take of a node: whoever makes pods must not keep the label from it. */
import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { mergeContributions } from "../node/merge.ts";
import { type NodePlan, planNode } from "../node/plan.ts";
import { NEW_YEAR } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { bindFootprints } from "./capability.ts";
import type { NodeFootprintSpec } from "./document.ts";
import { footprintsOf } from "./testing/footprints.ts";
import { makePod, sightOf } from "./testing/pods.ts";

/** Each pod is a group of its own. */
function claiming(domain: string, value?: string): NodeFootprintSpec {
  return {
    workloads: [{ podSelector: { matchExpressions: [{ key: "app", operator: "Exists" }] } }],
    group: { by: "Pod" },
    node: {
      label: { key: `${domain}.test/agent` },
      claims: { annotationPrefix: `${domain}.test/claim.`, ...(value !== undefined && { value }) },
    },
  };
}

/** Footprints of these names, whose first letter is their domain, on a node with that many pods. */
function planOf(names: readonly string[], count: number, { value, node = makeNode() }: Given = {}): NodePlan {
  const pods = Array.from({ length: count }, (_, at) =>
    makePod(`p${at}`, {
      labels: { app: "x" },
      uid: `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`,
    }),
  );
  const specs = Object.fromEntries(names.map((name) => [name, claiming(name.slice(0, 1), value)]));
  const footprints = footprintsOf(specs);
  const capability = bindFootprints({ footprints: () => footprints, observations: sightOf({ pods }) });
  const merged = mergeContributions([capability.contribute({ node, owned: new Map() }, NEW_YEAR)]);
  return planNode({ node, merged, installation: "berth", now: NEW_YEAR });
}

interface Given {
  readonly value?: string;
  readonly node?: Node;
}

const half = makeNode({ annotations: { theirs: "x".repeat(128 * 1024) } });

describe("claims leave room for the label", () => {
  it.each<[string, readonly string[], number, Given]>([
    ["of two footprints with names of 14 characters", ["a-node-agent-1", "b-node-agent-1"], 250, {}],
    ["of three footprints", ["a", "b", "c"], 200, {}],
    ["of one with a long name", [`a${"x".repeat(199)}`], 256, {}],
    ["with long values", ["a", "b", "c"], 256, { value: "v".repeat(253) }],
    ["with long values that take three bytes a character", ["a"], 256, { value: "語".repeat(253) }],
    ["with such beside what others have set", ["a", "b"], 256, { value: "語".repeat(253), node: half }],
  ])("%s", (_name, names, pods, given) => {
    const { patch, findings } = planOf(names, pods, given);
    const said = new Set(findings.map(({ reason }) => reason));
    expect(said).not.toContain("AnnotationsFull");
    expect(said).toContain("FootprintClaimsCapped");
    const { labels, annotations } = patch?.metadata ?? {};
    expect(Object.keys(labels ?? {})).toHaveLength(names.length);
    expect(Object.keys(annotations ?? {}).length).toBeGreaterThan(1);
  });

  it("and are all there where they have it", () => {
    const { patch, findings } = planOf(["a"], 240, { value: "v".repeat(200) });
    expect(findings).toEqual([]);
    expect(Object.keys(patch?.metadata.annotations ?? {})).toHaveLength(241);
  });
});
