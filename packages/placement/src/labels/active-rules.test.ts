import { describe, expect, it } from "vitest";
import { ownedMarks, recordOf } from "../node/record.ts";
import { bindLabels, settle } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { type AssembledRules, assembleRules, describeWaiting } from "./active-rules.ts";
import { confirmation, type LabelRuleDocument } from "./compile.ts";
import { defaultLabelOptions } from "./config.ts";
import { CONFIRMED_ANNOTATION, labelRuleSpec } from "./document.ts";
import type { SpecInit } from "./testing/rule-set.ts";

const document = (
  name: string,
  spec: object,
  annotations?: Readonly<Record<string, string>>,
): LabelRuleDocument => ({ name, spec: labelRuleSpec.parse(spec), annotations });
const asking = (key: string, percent = 50) => ({
  match: { all: [{ key }] },
  labels: [{ key: "out" }],
  confirmAbovePercent: percent,
});
/** Ten nodes: all carry `all`, four of them `some`. */
const nodes = Array.from({ length: 10 }, (_, at) =>
  makeNode({ name: `n${at}`, labels: { all: "1", ...(at < 4 && { some: "1" }) } }),
);
const views = (from = nodes) => from.map((node) => ({ node, owned: ownedMarks(recordOf(node), "berth") }));
/** What comes into force of one document of the cluster. */
const assemble = (
  one: LabelRuleDocument,
  more: Partial<Omit<Parameters<typeof assembleRules>[0], "sources">> = {},
) => {
  const documents = [{ source: "cluster", complete: true, documents: [one] } as const];
  return assembleRules({ sources: { documents, options: defaultLabelOptions }, nodes: views(), ...more });
};
const some = document("r", asking("some"));
const all = document("r", asking("all"));
/** Once these rules have been carried out. */
const settled = ({ rules }: AssembledRules, from = nodes) =>
  from.map((node) => settle(node, [bindLabels(() => rules)]));

describe("a rule that asks before it acts", () => {
  it("acts at once when it changes few nodes", () => {
    expect(assemble(some)).toMatchObject({ waiting: new Map(), rules: { count: 1 } });
  });

  it("waits when it changes more than it may, and says how many", () => {
    const { waiting, rules } = assemble(all);
    const [name, waits] = [...waiting][0] ?? [];
    expect([name, waits]).toEqual(["cluster/r", { touched: 10, of: 10, percent: 50 }]);
    expect(rules.count).toBe(0);
    expect(rules.withheld.get("cluster/r")).toBe("ConfirmationRequired");
    expect(waits && describeWaiting("r", waits)).toMatch(/10 of 10 nodes \(100 %\).*berth confirm r`/);
  });

  it("waits while the nodes are not known", () => {
    const expected = { touched: undefined, of: 0, percent: 50 };
    expect(assemble(some, { nodes: undefined }).waiting.get("cluster/r")).toEqual(expected);
  });

  it("acts when exactly this spec was confirmed, and on no other", () => {
    const spec = labelRuleSpec.parse(asking("all"));
    const confirmed = { [CONFIRMED_ANNOTATION]: confirmation(spec, 0) };
    expect(assemble(document("r", spec, confirmed)).waiting.size).toBe(0);
    const edited = document("r", { ...spec, labels: [{ key: "other" }] }, confirmed);
    expect(assemble(edited).waiting.size).toBe(1);
  });

  it("is not asked again for what is in force, and is for an edit", () => {
    const { admitted } = assemble(some);
    // Nodes have changed meanwhile: that is no edit.
    const grown = views(
      nodes.map((node) => ({ ...node, metadata: { ...node.metadata, labels: { some: "1" } } })),
    );
    expect(assemble(some, { nodes: grown, admitted }).waiting.size).toBe(0);
    const edited = assemble(all, { admitted });
    expect(edited.waiting.size).toBe(1);
    expect(assemble(some, { nodes: grown, admitted: edited.admitted }).waiting.size).toBe(0);
  });

  it("counts labels that it would remove, and leaves them while it waits", () => {
    const labelled = settled(assemble(document("r", asking("all", 100))));
    const narrowed = assemble(some, { nodes: views(labelled) });
    expect(narrowed.waiting.get("cluster/r")).toEqual({ touched: 6, of: 10, percent: 50 });
    expect(settled(narrowed, labelled)).toEqual(labelled);
  });

  it("never asks on a settled cluster, which is what a restart is", () => {
    const one = document("r", asking("all", 0));
    const labelled = settled(assemble(one, { nodes: [] }));
    expect(assemble(one, { nodes: views(labelled) }).waiting.size).toBe(0);
    expect(assemble(one).waiting.size).toBe(1);
  });

  it("does not count what somebody else set and it leaves", () => {
    const theirs = views(
      nodes.map(({ metadata }) => makeNode({ name: metadata?.name ?? "", labels: { all: "1", out: "x" } })),
    );
    expect(assemble(all, { nodes: theirs }).waiting.size).toBe(0);
    const overwrites = document("r", { ...asking("all"), overwrite: true });
    expect(assemble(overwrites, { nodes: theirs }).waiting.size).toBe(1);
  });

  it("keeps the labels that it takes over from a rule that is gone, while it waits", () => {
    const labelled = settled(assemble(document("before", asking("all")), { nodes: [] }));
    // As after a start: the rules are read before the nodes are.
    const renamed = assemble(document("after", asking("some")), { nodes: undefined });
    const kept = settled(renamed, labelled).filter(({ metadata }) => metadata?.labels?.["out"] !== undefined);
    expect(kept).toHaveLength(4);
  });

  it("waits without being counted when somebody else found that it does", () => {
    const { waiting } = assemble(all, { nodes: [], known: new Set(["cluster/r"]) });
    expect([...waiting.keys()]).toEqual(["cluster/r"]);
  });
});

describe("all sources together", () => {
  it("finds cycles across them, and refuses only the rule that closes one", () => {
    const rule = (from: string, key: string): SpecInit => ({
      match: { all: [{ key: from }] },
      labels: [{ key }],
    });
    const documents = (["config", "cluster"] as const).map((source) => ({
      source,
      complete: true,
      documents:
        source === "config"
          ? [document("a", rule("y", "x"))]
          : [document("b", rule("x", "y")), document("c", rule("x", "z"))],
    }));
    const { faults, rules } = assembleRules({
      sources: { documents, options: defaultLabelOptions },
      nodes: [],
    });
    const message = "it depends on its own label through x, y; config/a stays in force";
    expect(faults).toMatchObject([{ name: "b", source: "cluster", reason: "CyclicRule", message }]);
    expect(rules.count).toBe(2);
  });
});
