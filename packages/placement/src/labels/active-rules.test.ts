import { describe, expect, it } from "vitest";
import { ownedMarks, recordOf } from "../node/record.ts";
import { bindLabels, settle } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { assembleRules, describeWaiting, type RuleSources } from "./active-rules.ts";
import { confirmation, type LabelRuleDocument } from "./compile.ts";
import { defaultLabelOptions } from "./config.ts";
import { CONFIRMED_ANNOTATION, labelRuleSpec } from "./document.ts";

const document = (
  name: string,
  spec: object,
  annotations?: Readonly<Record<string, string>>,
): LabelRuleDocument => ({
  name,
  spec: labelRuleSpec.parse(spec),
  annotations,
});
const asking = (key: string, percent = 50) => ({
  match: { all: [{ key }] },
  labels: [{ key: "out" }],
  confirmAbovePercent: percent,
});
const sourcesOf = (...documents: readonly LabelRuleDocument[]): RuleSources => ({
  documents: [{ source: "cluster", complete: true, documents }],
  options: defaultLabelOptions,
});
/** Ten nodes: all carry `all`, four of them `some`. */
const nodes = Array.from({ length: 10 }, (_, at) =>
  makeNode({ name: `n${at}`, labels: { all: "1", ...(at < 4 && { some: "1" }) } }),
);
const views = (from = nodes) => from.map((node) => ({ node, owned: ownedMarks(recordOf(node), "berth") }));

describe("a rule that asks before it acts", () => {
  it("acts at once when it changes few nodes", () => {
    const { waiting, rules } = assembleRules({
      sources: sourcesOf(document("r", asking("some"))),
      nodes: views(),
    });
    expect(waiting.size).toBe(0);
    expect(rules.count).toBe(1);
  });

  it("waits when it changes more than it may, and says how many", () => {
    const one = document("r", asking("all"));
    const { waiting, rules } = assembleRules({ sources: sourcesOf(one), nodes: views() });
    expect(waiting.get("cluster/r")).toEqual({ touched: 10, of: 10, percent: 50 });
    expect(rules.count).toBe(0);
    expect(rules.withheld.get("cluster/r")).toBe("ConfirmationRequired");
    expect(describeWaiting("r", { touched: 10, of: 10, percent: 50 })).toMatch(
      /10 of 10 nodes \(100 %\).*berth confirm r`/,
    );
  });

  it("waits while the nodes are not known", () => {
    const { waiting } = assembleRules({
      sources: sourcesOf(document("r", asking("some"))),
      nodes: undefined,
    });
    expect(waiting.get("cluster/r")).toEqual({ touched: undefined, of: 0, percent: 50 });
  });

  it("acts when exactly this spec was confirmed, and on no other", () => {
    const spec = labelRuleSpec.parse(asking("all"));
    const confirmed = { [CONFIRMED_ANNOTATION]: confirmation(spec, 0) };
    const admitted = assembleRules({ sources: sourcesOf(document("r", spec, confirmed)), nodes: views() });
    expect(admitted.waiting.size).toBe(0);
    const edited = document("r", { ...spec, labels: [{ key: "other" }] }, confirmed);
    expect(assembleRules({ sources: sourcesOf(edited), nodes: views() }).waiting.size).toBe(1);
  });

  it("is not asked again for what is in force, and is for an edit", () => {
    const first = assembleRules({ sources: sourcesOf(document("r", asking("some"))), nodes: views() });
    const { admitted } = first;
    // Nodes have changed meanwhile: that is no edit.
    const grown = views(
      nodes.map((node) => ({ ...node, metadata: { ...node.metadata, labels: { some: "1" } } })),
    );
    const again = assembleRules({
      sources: sourcesOf(document("r", asking("some"))),
      nodes: grown,
      admitted,
    });
    expect(again.waiting.size).toBe(0);
    const edit = document("r", asking("all"));
    const edited = assembleRules({ sources: sourcesOf(edit), nodes: views(), admitted });
    expect(edited.waiting.size).toBe(1);
    const back = assembleRules({
      sources: sourcesOf(document("r", asking("some"))),
      nodes: grown,
      admitted: edited.admitted,
    });
    expect(back.waiting.size).toBe(0);
  });

  it("counts labels that it would remove, and leaves them while it waits", () => {
    const before = assembleRules({ sources: sourcesOf(document("r", asking("all", 100))), nodes: views() });
    const labelled = nodes.map((node) => settle(node, [bindLabels(() => before.rules)]));
    const narrowed = document("r", asking("some"));
    const { waiting, rules } = assembleRules({ sources: sourcesOf(narrowed), nodes: views(labelled) });
    expect(waiting.get("cluster/r")).toEqual({ touched: 6, of: 10, percent: 50 });
    for (const node of labelled) expect(settle(node, [bindLabels(() => rules)])).toBe(node);
  });

  it("never asks on a settled cluster, which is what a restart is", () => {
    const one = sourcesOf(document("r", asking("all", 0)));
    const act = assembleRules({ sources: one, nodes: [] });
    const labelled = nodes.map((node) => settle(node, [bindLabels(() => act.rules)]));
    expect(assembleRules({ sources: one, nodes: views(labelled) }).waiting.size).toBe(0);
    expect(assembleRules({ sources: one, nodes: views() }).waiting.size).toBe(1);
  });

  it("does not count what somebody else set and it leaves", () => {
    const theirs = nodes.map(({ metadata }) =>
      makeNode({ name: metadata?.name ?? "", labels: { all: "1", out: "x" } }),
    );
    const count = (spec: object) =>
      assembleRules({ sources: sourcesOf(document("r", spec)), nodes: views(theirs) }).waiting.size;
    expect(count(asking("all"))).toBe(0);
    expect(count({ ...asking("all"), overwrite: true })).toBe(1);
  });

  it("keeps the labels that it takes over from a rule that is gone, while it waits", () => {
    const act = assembleRules({ sources: sourcesOf(document("before", asking("all"))), nodes: [] });
    const labelled = nodes.map((node) => settle(node, [bindLabels(() => act.rules)]));
    const renamed = sourcesOf(document("after", asking("some")));
    // As after a start: the rules are read before the nodes are.
    const { rules } = assembleRules({ sources: renamed, nodes: undefined });
    const { length: kept } = labelled
      .map((node) => settle(node, [bindLabels(() => rules)]))
      .filter((node) => node.metadata?.labels?.["out"] !== undefined);
    expect(kept).toBe(4);
  });

  it("waits without being counted when somebody else found that it does", () => {
    const known = new Set(["cluster/r"]);
    const { waiting } = assembleRules({ sources: sourcesOf(document("r", asking("all"))), nodes: [], known });
    expect([...waiting.keys()]).toEqual(["cluster/r"]);
  });
});

describe("all sources together", () => {
  it("finds cycles across them, and refuses only what is on one", () => {
    const { faults, rules } = assembleRules({
      sources: {
        documents: [
          {
            source: "config",
            complete: true,
            documents: [document("a", { match: { all: [{ key: "y" }] }, labels: [{ key: "x" }] })],
          },
          {
            source: "cluster",
            complete: true,
            documents: [
              document("b", { match: { all: [{ key: "x" }] }, labels: [{ key: "y" }] }),
              document("c", { match: { all: [{ key: "x" }] }, labels: [{ key: "z" }] }),
            ],
          },
        ],
        options: defaultLabelOptions,
      },
      nodes: [],
    });
    expect(faults).toMatchObject([
      { name: "a", source: "config", reason: "CyclicRule" },
      { name: "b", source: "cluster", reason: "CyclicRule" },
    ]);
    expect(rules.count).toBe(1);
  });
});
