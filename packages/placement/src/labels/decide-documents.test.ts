import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodePlan } from "../node/plan.ts";
import { labelsOf, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import type { MatchTerm } from "./document.ts";
import { type RulesInit, rulesOf, type SpecInit } from "./testing/rule-set.ts";

const plan = (node: Node, rules: RulesInit): NodePlan => planWith(node, rulesOf(rules).labels);
const apply = (node: Node, rules: RulesInit): Node => settle(node, rulesOf(rules).labels);
const changesOf = (node: Node, rules: RulesInit): readonly string[] =>
  plan(node, rules).changes.map(({ id, action, reason, rule }) => `${action} ${id} ${reason} ${rule}`);
const findingsOf = (node: Node, rules: RulesInit): readonly string[] =>
  plan(node, rules).findings.map(({ severity, subject, reason }) => `${severity} ${subject} ${reason}`);

/** Applied once; a second time there must be nothing left to do. */
function settled(node: Node, rules: RulesInit): Readonly<Record<string, string>> {
  const after = apply(node, rules);
  expect(plan(after, rules).changes).toEqual([]);
  return labelsOf(after);
}

const when = (...all: readonly MatchTerm[]): Pick<SpecInit, "match"> => ({ match: { all } });
const x = makeNode({ labels: { x: "1" } });
const bare = makeNode();

describe("facts of a node", () => {
  const node = patchNode(
    makeNode({
      labels: { x: "1" },
      annotations: { "example.com/Note": "v7 of it" },
      taints: [
        { key: "example.com/gpu", value: "a100", effect: "NoSchedule" },
        { key: "t", effect: "NoExecute" },
      ],
    }),
    {
      status: {
        capacity: { cpu: "8", memory: "32Gi" },
        allocatable: { cpu: "7910m" },
        conditions: [{ type: "Ready", status: "True" }],
        nodeInfo: { architecture: "arm64", kernelVersion: "6.8.0-91-generic", kubeProxyVersion: "" },
      },
    },
  );

  it.each<[string, MatchTerm, boolean]>([
    [
      "an annotation",
      { source: "Annotation", key: "example.com/Note", operator: "Matches", values: ["^v\\d"] },
      true,
    ],
    ["an absent annotation", { source: "Annotation", key: "x" }, false],
    ["our own record", { source: "Annotation", key: "berth.dev/marks" }, false],
    ["a capacity", { source: "Capacity", key: "memory", operator: "Ge", values: ["32Gi"] }, true],
    ["what can be allocated", { source: "Allocatable", key: "cpu", operator: "Lt", values: ["8"] }, true],
    ["a resource named like a property", { source: "Capacity", key: "constructor" }, false],
    ["a condition", { source: "Condition", key: "Ready", operator: "In", values: ["True"] }, true],
    [
      "an absent condition",
      { source: "Condition", key: "DiskPressure", operator: "NotIn", values: ["True"] },
      true,
    ],
    ["nodeInfo", { source: "NodeInfo", key: "architecture", operator: "In", values: ["arm64"] }, true],
    [
      "a version",
      { source: "NodeInfo", key: "kernelVersion", operator: "Ge", values: ["6.8"], compareAs: "Version" },
      true,
    ],
    ["an empty field of nodeInfo", { source: "NodeInfo", key: "kubeProxyVersion" }, false],
    ["a field of nodeInfo that is none", { source: "NodeInfo", key: "toString" }, false],
    ["a taint", { source: "Taint", key: "example.com/gpu", operator: "In", values: ["a100"] }, true],
    ["a taint with its effect", { source: "Taint", key: "example.com/gpu:NoSchedule" }, true],
    ["a taint with another effect", { source: "Taint", key: "example.com/gpu:NoExecute" }, false],
    ["a taint without a value", { source: "Taint", key: "t", operator: "In", values: [""] }, true],
  ])("%s", (_what, term, holds) => {
    const rules: RulesInit = { cluster: { r: { ...when(term), labels: [{ key: "out" }] } } };
    expect(Object.hasOwn(settled(node, rules), "out")).toBe(holds);
  });

  it("gives several labels at once, with values of every kind", () => {
    const labels: SpecInit["labels"] = [
      { key: "fixed", value: "yes" },
      { key: "copy", valueFrom: { source: "NodeInfo", key: "architecture" } },
      { key: "part", valueFrom: { source: "Annotation", key: "example.com/Note", pattern: "^(v\\d)" } },
      { key: "both", valueTemplate: "${NodeInfo/architecture}-${Taint/example.com/gpu}" },
      { key: "clean", valueFrom: { source: "Annotation", key: "example.com/Note" }, sanitize: true },
      { key: "absent", valueFrom: { source: "Annotation", key: "nothing" } },
    ];
    expect(settled(node, { cluster: { r: { labels } } })).toEqual({
      x: "1",
      fixed: "yes",
      copy: "arm64",
      part: "v7",
      both: "arm64-a100",
      clean: "v7_of_it",
    });
  });
});

describe("chains", () => {
  const chain: RulesInit = {
    files: { b: "x" },
    config: { c: { ...when({ key: "b" }), labels: [{ key: "c", valueFrom: { key: "b" } }] } },
    cluster: {
      d: { ...when({ key: "c", operator: "In", values: ["true"] }), labels: [{ key: "d" }] },
      e: { ...when({ key: "d", operator: "DoesNotExist" }), labels: [{ key: "e" }] },
    },
  };

  it("over all sources settle in one write, and go in one as well", () => {
    const after = apply(x, chain);
    expect(settled(x, chain)).toEqual({ x: "1", b: "true", c: "true", d: "true" });
    const gone = editNode(after, { labels: { x: null } });
    expect(settled(gone, chain)).toEqual({ e: "true" });
  });

  it("follow the value that stands when a rule leaves what somebody else has set", () => {
    const rules: RulesInit = {
      cluster: {
        a: { labels: [{ key: "a", value: "ours" }] },
        b: { labels: [{ key: "b", valueFrom: { key: "a" } }] },
      },
    };
    expect(settled(makeNode({ labels: { a: "theirs" } }), rules)).toEqual({ a: "theirs", b: "theirs" });
    expect(settled(bare, rules)).toEqual({ a: "ours", b: "ours" });
  });

  it("do not follow a value that the API server would refuse", () => {
    const noted = makeNode({ annotations: { note: "not valid" } });
    const rules: RulesInit = {
      cluster: {
        a: { labels: [{ key: "a", valueFrom: { source: "Annotation", key: "note" } }] },
        b: { ...when({ key: "a" }), labels: [{ key: "b" }] },
      },
    };
    expect(settled(noted, rules)).toEqual({});
    expect(findingsOf(noted, rules)).toEqual(["warning label/a MarkInvalid"]);
    const before = apply(makeNode({ annotations: { note: "fine" } }), rules);
    expect(settled(editNode(before, { annotations: { note: "not valid" } }), rules)).toEqual({
      a: "fine",
      b: "true",
    });
  });
});

describe("foreign values", () => {
  const theirs = makeNode({ labels: { a: "theirs" } });

  it("stay and are reported unless the rule overwrites", () => {
    const rules: RulesInit = { cluster: { r: { labels: [{ key: "a", value: "ours" }] } } };
    expect(settled(theirs, rules)).toEqual({ a: "theirs" });
    expect(findingsOf(theirs, rules)).toEqual(["warning label/a ForeignValueKept"]);
  });

  it("are replaced by a rule that overwrites", () => {
    const rules: RulesInit = { cluster: { r: { overwrite: true, labels: [{ key: "a", value: "ours" }] } } };
    expect(changesOf(theirs, rules)).toEqual(["overwrite label/a ForeignValueReplaced cluster/r"]);
    expect(settled(theirs, rules)).toEqual({ a: "ours" });
  });

  it("do not come back by a rule that copies the label it sets: that one is cyclic", () => {
    const rules: RulesInit = {
      cluster: { r: { overwrite: true, labels: [{ key: "a", valueFrom: { key: "a" } }] } },
    };
    expect(rulesOf(rules).rules.cyclic).toHaveLength(1);
    expect(plan(theirs, rules).patch).toBeUndefined();
  });
});

describe("L-B10 two rules for one label", () => {
  const same: RulesInit = {
    files: { a: "x" },
    cluster: { r: { ...when({ key: "y" }), labels: [{ key: "a" }] } },
  };

  it("L-B10 are merged when they want the same: either is enough, and the first by name is recorded", () => {
    const both = makeNode({ labels: { x: "1", y: "1" } });
    expect(changesOf(both, same)).toEqual(["add label/a RuleMatched cluster/r"]);
    for (const keep of ["x", "y"]) {
      const after = apply(editNode(apply(both, same), { labels: { x: null, y: null, [keep]: "1" } }), same);
      expect(labelsOf(after)).toEqual({ [keep]: "1", a: "true" });
    }
    expect(settled(editNode(apply(both, same), { labels: { x: null, y: null } }), same)).toEqual({});
  });

  it("L-B10 are listed once for the warning, not per node", () => {
    const { rules } = rulesOf(same);
    expect(rules.overlaps.map(({ key, claims }) => [key, claims.map(({ rule }) => rule.name)])).toEqual([
      ["a", ["cluster/r", "folder/a"]],
    ]);
    expect(plan(makeNode({ labels: { x: "1", y: "1" } }), same).findings).toEqual([]);
    const trial = rulesOf({ ...same, cluster: { r: { dryRun: true, labels: [{ key: "a" }] } } });
    expect(trial.rules.overlaps).toEqual([]);
  });

  it("overwrite when one of them does", () => {
    expect(settled(makeNode({ labels: { x: "1", y: "1", a: "theirs" } }), same)).toEqual({
      x: "1",
      y: "1",
      a: "true",
    });
    expect(settled(makeNode({ labels: { y: "1", a: "theirs" } }), same)).toEqual({ y: "1", a: "theirs" });
  });

  const one: SpecInit = { ...when({ key: "x" }), labels: [{ key: "a", value: "1" }] };
  const two: SpecInit = { ...when({ key: "y" }), labels: [{ key: "a", value: "2" }] };
  const conflict: RulesInit = { cluster: { one, two } };

  it("set nothing when they want different values and nothing stands", () => {
    const both = makeNode({ labels: { x: "1", y: "1" } });
    expect(settled(both, conflict)).toEqual({ x: "1", y: "1" });
    expect(findingsOf(both, conflict)).toEqual(["info label/a RuleConflict"]);
    expect(plan(both, conflict).findings[0]?.message).toBe(
      'cluster/one wants "1", cluster/two wants "2": none is set',
    );
  });

  it("leave what stands, ours or not, and end when one of them is gone", () => {
    const first = apply(x, conflict);
    const both = editNode(first, { labels: { y: "1" } });
    expect(settled(both, conflict)).toEqual({ x: "1", y: "1", a: "1" });
    expect(changesOf(both, { cluster: { two } })).toEqual(["overwrite label/a ValueRestored cluster/two"]);
    expect(settled(both, { cluster: { two } })).toEqual({ x: "1", y: "1", a: "2" });
    expect(settled(both, { cluster: {} })).toEqual({ x: "1", y: "1" });
    const theirs = makeNode({ labels: { x: "1", y: "1", a: "3" } });
    expect(settled(theirs, conflict)).toEqual({ x: "1", y: "1", a: "3" });
  });

  it("tell for each rule which other one is against it", () => {
    const { labels } = rulesOf(conflict);
    const view = { node: makeNode({ labels: { x: "1", y: "1" } }), owned: new Map() };
    expect(labels[0]?.contribute(view, 0).decision.outcomes).toEqual([
      { rule: "cluster/one", conflictsWith: "cluster/two" },
      { rule: "cluster/two", conflictsWith: "cluster/one" },
    ]);
  });

  it("say nothing where they do not match", () => {
    expect(settled(makeNode({ labels: { y: "1" } }), conflict)).toEqual({ y: "1", a: "2" });
  });

  it("take a value that cannot be written for no wish", () => {
    const rules: RulesInit = {
      cluster: {
        bad: { labels: [{ key: "a", valueFrom: { source: "Annotation", key: "note" } }] },
        good: { labels: [{ key: "a" }] },
      },
    };
    expect(settled(makeNode({ annotations: { note: "not valid" } }), rules)).toEqual({ a: "true" });
  });
});

describe("L-B10 a dry run", () => {
  const live: SpecInit = { ...when({ key: "x" }), labels: [{ key: "a", value: "1" }] };
  const trial: SpecInit = { ...live, dryRun: true };

  it("L-B10 tells what the rule would do, and does nothing", () => {
    const rules: RulesInit = { cluster: { r: trial } };
    const result = plan(x, rules);
    expect(result.patch).toBeUndefined();
    expect(result.findings).toMatchObject([
      { severity: "info", subject: "label/a", reason: "DryRun", message: 'cluster/r would set "1"' },
    ]);
    expect(rulesOf(rules).rules.count).toBe(0);
  });

  it("keeps what the rule has set before, whatever becomes of its inputs and labels", () => {
    const set = apply(x, { cluster: { r: live } });
    const gone = editNode(set, { labels: { x: null } });
    for (const spec of [
      trial,
      { ...trial, labels: [{ key: "b" }] },
      { ...trial, labels: [{ key: "a", value: "2" }] },
    ]) {
      expect(plan(gone, { cluster: { r: spec } }).patch).toBeUndefined();
      expect(plan(gone, { cluster: { r: spec } }).stays).toMatchObject([{ id: "label/a", reason: "DryRun" }]);
    }
    expect(settled(gone, { cluster: { r: live } })).toEqual({});
  });

  it("is removed like any rule when it is deleted", () => {
    const set = apply(x, { cluster: { r: live } });
    expect(changesOf(set, { cluster: {} })).toEqual(["remove label/a RuleGone cluster/r"]);
  });

  it("neither conflicts with rules in force, nor puts them out of it by a cycle, nor makes them wait", () => {
    const b: SpecInit = { ...when({ key: "a" }), labels: [{ key: "b" }] };
    const force = { r: live, b };
    const expected = { x: "1", a: "1", b: "true" };
    expect(
      settled(x, { cluster: { ...force, against: { ...trial, labels: [{ key: "a", value: "2" }] } } }),
    ).toEqual(expected);
    const cycle: SpecInit = { ...when({ key: "b" }), dryRun: true, labels: [{ key: "a", value: "1" }] };
    expect(settled(x, { cluster: { ...force, cycle } })).toEqual(expected);
    expect(rulesOf({ cluster: { ...force, cycle } }).rules.cyclic.map(({ rule }) => rule.name)).toEqual([
      "cluster/cycle",
    ]);
    const waits: SpecInit = { ...when({ key: "frozen" }), dryRun: true, labels: [{ key: "n" }] };
    const n: SpecInit = { ...when({ key: "n", operator: "DoesNotExist" }), labels: [{ key: "m" }] };
    expect(settled(x, { files: { frozen: undefined }, cluster: { waits, n } })).toEqual({
      x: "1",
      m: "true",
    });
  });

  it("is what a rule does that waits for its confirmation", () => {
    const rules: RulesInit = { cluster: { r: live }, unconfirmed: ["r"] };
    expect(plan(x, rules).patch).toBeUndefined();
    expect(findingsOf(x, rules)).toEqual(["info label/a ConfirmationRequired"]);
  });
});

describe("rules that are not in force", () => {
  const live: RulesInit = {
    cluster: {
      r: { ...when({ key: "x" }), labels: [{ key: "a" }] },
      after: { ...when({ key: "a" }), labels: [{ key: "b" }] },
    },
  };
  const set = apply(x, live);
  const gone = editNode(set, { labels: { x: null } });
  const after = live.cluster?.["after"] ?? null;

  it.each<[string, RulesInit, string]>([
    ["cannot be read", { cluster: { r: null, after } }, "RuleInvalid"],
    [
      "has a fault",
      {
        cluster: {
          r: { ...when({ key: "x", operator: "Matches", values: ["("] }), labels: [{ key: "a" }] },
          after,
        },
      },
      "RuleInvalid",
    ],
    ["is cyclic", { cluster: { r: { ...when({ key: "b" }), labels: [{ key: "b" }] }, after } }, "CyclicRule"],
    ["has not been read", { cluster: { after }, unread: ["cluster"] }, "SourceNotRead"],
  ])("keep their marks, and those count: a rule that %s", (_what, rules, reason) => {
    expect(plan(gone, rules).patch).toBeUndefined();
    expect(plan(gone, rules).stays).toMatchObject([{ id: "label/a", reason }]);
    expect(labelsOf(gone)).toEqual({ a: "true", b: "true" });
  });

  it("lose them when they are deleted", () => {
    expect(changesOf(gone, { cluster: { after } })).toEqual([
      "remove label/a RuleGone cluster/r",
      "remove label/b InputGone cluster/after",
    ]);
  });

  it("leave their labels to another rule that wants them", () => {
    const rules: RulesInit = {
      config: { other: { labels: [{ key: "a", value: "2" }] } },
      cluster: { r: null },
    };
    expect(settled(gone, rules)).toMatchObject({ a: "2" });
  });
});

describe("a rule for the absence of a label whose rule is refused", () => {
  const fault: MatchTerm = { key: "x", operator: "Matches", values: ["("] };
  const gpu: SpecInit = { ...when(fault), labels: [{ key: "gpu" }] };
  const cpuOnly: SpecInit = {
    ...when({ key: "gpu", operator: "DoesNotExist" }),
    labels: [{ key: "cpu-only" }],
  };
  const fires = { x: "1", "cpu-only": "true" };

  it.each<[string, RulesInit]>([
    ["has a fault", { cluster: { gpu, cpuOnly } }],
    ["has a fault and waits to be confirmed", { cluster: { gpu, cpuOnly }, unconfirmed: ["gpu"] }],
    [
      "sets a reserved label too",
      { cluster: { gpu: { labels: [{ key: "gpu" }, { key: "kubernetes.io/gpu" }] }, cpuOnly } },
    ],
    ["is cyclic", { cluster: { gpu: { ...when({ key: "gpu" }), labels: [{ key: "gpu" }] }, cpuOnly } }],
    ["is a file with a faulty line", { files: { gpu: "x y" }, format: "Extended", cluster: { cpuOnly } }],
  ])("does not fire on a fresh node: !gpu -> cpu-only, where the rule of gpu %s", (_what, rules) => {
    expect(settled(x, rules)).toEqual({ x: "1" });
    // It stands, whoever set it: that much is known.
    expect(settled(makeNode({ labels: { gpu: "1" } }), rules)).toEqual({ gpu: "1" });
  });

  it.each<[string, RulesInit]>([
    ["has a fault", { cluster: { gpu: { ...gpu, dryRun: true }, cpuOnly } }],
    [
      "is cyclic",
      { cluster: { gpu: { ...when({ key: "gpu" }), dryRun: true, labels: [{ key: "gpu" }] }, cpuOnly } },
    ],
    [
      "is cyclic and waits",
      {
        cluster: { gpu: { ...when({ key: "gpu" }), labels: [{ key: "gpu" }] }, cpuOnly },
        unconfirmed: ["gpu"],
      },
    ],
    ["cannot be read, so that its labels are not known", { cluster: { gpu: null, cpuOnly } }],
  ])("fires where that rule was on trial, which makes nothing unknown: it %s", (_what, rules) => {
    expect([...rulesOf(rules).rules.frozen]).toEqual([]);
    expect(settled(x, rules)).toEqual(fires);
  });

  it("does not fire, and goes, once another rule wants the label", () => {
    const other: SpecInit = { ...when({ key: "y" }), labels: [{ key: "gpu" }] };
    const rules: RulesInit = { config: { other }, cluster: { gpu, cpuOnly } };
    expect(settled(x, rules)).toEqual({ x: "1" });
    const set = apply(x, { cluster: { cpuOnly } });
    expect(settled(set, rules)).toEqual(fires);
    expect(settled(editNode(set, { labels: { y: "1" } }), rules)).toEqual({
      x: "1",
      y: "1",
      gpu: "true",
    });
  });

  it("fires again once the fault is mended", () => {
    expect(settled(x, { cluster: { gpu: { ...when({ key: "y" }), labels: gpu.labels }, cpuOnly } })).toEqual(
      fires,
    );
  });

  it("is told why, one reason for a key whatever the order", () => {
    const reserved: SpecInit = { labels: [{ key: "gpu" }, { key: "k8s.io/gpu" }] };
    const expected = new Map([
      ["gpu", "RuleInvalid"],
      ["k8s.io/gpu", "ReservedLabelKey"],
    ]);
    for (const cluster of [
      { gpu, reserved },
      { reserved, gpu },
    ])
      expect(rulesOf({ cluster }).rules.frozen).toEqual(expected);
    const after = apply(x, { cluster: { gpu: { ...when({ key: "x" }), labels: gpu.labels } } });
    expect(plan(after, { cluster: { gpu } }).stays).toMatchObject([
      { id: "label/gpu", reason: "RuleInvalid" },
    ]);
  });
});

describe("L-B9 cycles", () => {
  const copy = (from: string, to: string): SpecInit => ({ labels: [{ key: to, valueFrom: { key: from } }] });

  it("L-B9 of rules that copy each other's label are refused, and the rest is in force", () => {
    const rules: RulesInit = { cluster: { ab: copy("a", "b"), ba: copy("b", "a"), c: copy("x", "c") } };
    const { cyclic } = rulesOf(rules).rules;
    expect(cyclic.map(({ rule, keys }) => [rule.name, keys])).toEqual([
      ["cluster/ab", ["a", "b"]],
      ["cluster/ba", ["a", "b"]],
    ]);
    expect(settled(makeNode({ labels: { x: "1", a: "mine" } }), rules)).toEqual({
      x: "1",
      a: "mine",
      c: "1",
    });
  });

  it.each<[string, SpecInit]>([
    [
      "a negation of its own label",
      { ...when({ key: "a", operator: "DoesNotExist" }), labels: [{ key: "a" }] },
    ],
    [
      "a condition on its own label",
      { match: { any: [{ key: "x" }, { all: [{ key: "a" }] }] }, labels: [{ key: "a" }] },
    ],
    ["a template of its own label", { labels: [{ key: "a", valueTemplate: "${Label/a}-" }] }],
    [
      "a label that another output of it sets",
      { ...when({ key: "b" }), labels: [{ key: "a" }, { key: "b" }] },
    ],
  ])("L-B9 by %s are refused", (_what, spec) => {
    const { rules } = rulesOf({ cluster: { r: spec } });
    expect(rules.cyclic).toHaveLength(1);
    expect([...rules.withheld]).toEqual([["cluster/r", "CyclicRule"]]);
    expect(plan(x, { cluster: { r: spec } }).patch).toBeUndefined();
  });

  it("L-B9 of plain files stay in force, without a document that would break them", () => {
    const files = { a: "b\nx", b: "a" };
    const fine: SpecInit = { ...when({ key: "y" }), labels: [{ key: "a" }] };
    expect(settled(makeNode({ labels: { y: "1" } }), { files, cluster: { fine } })).toEqual({
      y: "1",
      a: "true",
      b: "true",
    });
    const breaks: SpecInit = { ...when({ key: "y" }), labels: [{ key: "a", value: "no" }] };
    expect(rulesOf({ files, cluster: { breaks } }).rules.cyclic.map(({ rule }) => rule.name)).toEqual([
      "cluster/breaks",
    ]);
    expect(settled(makeNode({ labels: { y: "1" } }), { files, cluster: { breaks } })).toEqual({ y: "1" });
  });

  it("L-B9 of plain files leave what stands without them also while a document for it is refused", () => {
    const files = { a: "b", b: "a" };
    const breaks: SpecInit = { ...when({ key: "y" }), labels: [{ key: "a", value: "no" }] };
    const theirs = makeNode({ labels: { a: "theirs" } });
    const after = apply(theirs, { files, cluster: { breaks } });
    expect(labelsOf(after)).toEqual({ a: "theirs", b: "true" });
    expect(settled(after, { files })).toEqual({ a: "theirs", b: "true" });
  });

  it("L-B9 are decided whole when a rule without a trigger is on them", () => {
    const files = { a: "b", b: "a" };
    const idle: SpecInit = { ...when({ key: "y", operator: "DoesNotExist" }), labels: [{ key: "b" }] };
    expect(settled(bare, { files, cluster: { idle } })).toEqual({ a: "true", b: "true" });
  });

  it("L-B9 are asked again for what could not be told at first", () => {
    const files = { a: "c\nf", c: "d\ne", d: "x\na", e: "a", f: undefined };
    expect(settled(x, { files })).toEqual({ x: "1", a: "true", c: "true", d: "true", e: "true" });
  });

  it("L-B9 leave a label as it stands that a rule on trial has set", () => {
    const live: SpecInit = { labels: [{ key: "a", value: "1" }] };
    const set = apply(bare, { cluster: { live } });
    const rules: RulesInit = { files: { a: "a" }, cluster: { live: { ...live, dryRun: true } } };
    expect(settled(set, rules)).toEqual({ a: "1" });
  });

  it("L-B9 give what copies from them the value that stands", () => {
    const rules: RulesInit = { files: { a: "b", b: "a" }, cluster: { c: copy("a", "c") } };
    expect(settled(makeNode({ labels: { a: "theirs" } }), rules)).toEqual({
      a: "theirs",
      b: "true",
      c: "theirs",
    });
  });
});

describe("what cannot be told", () => {
  it("keeps what depends on it, by presence, absence or value", () => {
    const rules: RulesInit = {
      files: { f: undefined },
      cluster: {
        yes: { ...when({ key: "f" }), labels: [{ key: "a" }] },
        no: { ...when({ key: "f", operator: "DoesNotExist" }), labels: [{ key: "b" }] },
        copy: { labels: [{ key: "c", valueFrom: { key: "f" } }] },
        either: { match: { any: [{ key: "f" }, { key: "x" }] }, labels: [{ key: "d" }] },
      },
    };
    expect(settled(x, rules)).toEqual({ x: "1", d: "true" });
    expect(settled(bare, rules)).toEqual({});
    const set = makeNode({ labels: { f: "true" } });
    expect(settled(set, rules)).toEqual({ f: "true", a: "true", c: "true", d: "true" });
  });
});

describe("our own record", () => {
  it("is no fact, or a rule that asks for it would come and go for ever", () => {
    const rules: RulesInit = {
      cluster: {
        r: {
          ...when({ source: "Annotation", key: "berth.dev/marks", operator: "DoesNotExist" }),
          labels: [{ key: "a" }],
        },
      },
    };
    expect(settled(bare, rules)).toEqual({ a: "true" });
  });
});
