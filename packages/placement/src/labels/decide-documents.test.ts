import type { Node } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { traceRules } from "../node/explain/rule-trace.ts";
import type { NodePlan } from "../node/plan.ts";
import { labelsOf, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import type { MatchTerm } from "./document.ts";
import { comeTrue, type Look } from "./testing/history.ts";
import { type RulesInit, rulesOf, type SpecInit } from "./testing/rule-set.ts";

const plan = (node: Node, rules: RulesInit): NodePlan => planWith(node, rulesOf(rules).labels);
const findingsOf = (node: Node, rules: RulesInit): readonly string[] =>
  plan(node, rules).findings.map(({ severity, subject, reason }) => `${severity} ${subject} ${reason}`);

/** Applied once; a second time there must be nothing left to do. */
function settled(node: Node, rules: RulesInit): Readonly<Record<string, string>> {
  const after = settle(node, rulesOf(rules).labels);
  expect(plan(after, rules).changes).toEqual([]);
  return labelsOf(after);
}

const lacks = (key: string): MatchTerm => ({ key, operator: "DoesNotExist" });
/** A rule that sets one label where all of these hold. */
const sets = (key: string, value?: string, ...all: readonly MatchTerm[]): SpecInit => ({
  match: all.length === 0 ? {} : { all },
  labels: [value === undefined ? { key } : { key, value }],
});
const when = (term: MatchTerm, key: string): SpecInit => sets(key, undefined, term);
const copies = (from: string, to: string): SpecInit => ({ labels: [{ key: to, valueFrom: { key: from } }] });
const copiesNote: SpecInit = { labels: [{ key: "a", valueFrom: { source: "Annotation", key: "note" } }] };
const notes = (note: string): Node => makeNode({ annotations: { note } });
const onTrial = (spec: SpecInit): SpecInit => ({ ...spec, dryRun: true });
const inCluster = (cluster: NonNullable<RulesInit["cluster"]>): RulesInit => ({ cluster });

const x = { x: "1" };
const y = { y: "1" };
const both = { x: "1", y: "1" };
const nodeWith = (labels: Readonly<Record<string, string>>): Node => makeNode({ labels });

describe("facts of a node", () => {
  const node = patchNode(
    makeNode({
      labels: x,
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
  const of = (
    source: MatchTerm["source"],
    key: string,
    operator?: MatchTerm["operator"],
    value?: string,
  ) => ({
    source,
    key,
    ...(operator && { operator, values: [value ?? ""] }),
  });

  it.each<[string, MatchTerm, boolean]>([
    ["an annotation", of("Annotation", "example.com/Note", "Matches", "^v\\d"), true],
    ["an absent annotation", of("Annotation", "x"), false],
    ["our own record", of("Annotation", "berth.dev/marks"), false],
    ["a capacity", of("Capacity", "memory", "Ge", "32Gi"), true],
    ["what can be allocated", of("Allocatable", "cpu", "Lt", "8"), true],
    ["a resource named like a property", of("Capacity", "constructor"), false],
    ["a condition", of("Condition", "Ready", "In", "True"), true],
    ["an absent condition", of("Condition", "DiskPressure", "NotIn", "True"), true],
    ["nodeInfo", of("NodeInfo", "architecture", "In", "arm64"), true],
    ["a version", { ...of("NodeInfo", "kernelVersion", "Ge", "6.8"), compareAs: "Version" }, true],
    ["an empty field of nodeInfo", of("NodeInfo", "kubeProxyVersion"), false],
    ["a field of nodeInfo that is none", of("NodeInfo", "toString"), false],
    ["a taint", of("Taint", "example.com/gpu", "In", "a100"), true],
    ["a taint with its effect", of("Taint", "example.com/gpu:NoSchedule"), true],
    ["a taint with another effect", of("Taint", "example.com/gpu:NoExecute"), false],
    ["a taint without a value", of("Taint", "t", "In", ""), true],
  ])("%s", (_what, term, holds) => {
    expect(Object.hasOwn(settled(node, inCluster({ r: when(term, "out") })), "out")).toBe(holds);
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
    const expected = { fixed: "yes", copy: "arm64", part: "v7", both: "arm64-a100", clean: "v7_of_it" };
    expect(settled(node, inCluster({ r: { labels } }))).toEqual({ ...x, ...expected });
  });
});

describe("chains", () => {
  const chain: RulesInit = {
    files: { b: "x" },
    config: { c: { ...copies("b", "c"), match: { all: [{ key: "b" }] } } },
    cluster: {
      d: when({ key: "c", operator: "In", values: ["true"] }, "d"),
      e: when(lacks("d"), "e"),
    },
  };
  const follows = inCluster({ a: sets("a", "ours"), b: copies("a", "b") });

  it.each<[string, ...Look[]]>([
    [
      "over all sources settle in one write, and go in one as well",
      [chain, x, { ...x, b: "true", c: "true", d: "true" }],
      [chain, { x: null }, { e: "true" }],
    ],
    [
      "follow the value that stands when a rule leaves what somebody else has set",
      [follows, { a: "theirs" }, { a: "theirs", b: "theirs" }],
    ],
    ["follow the value that a rule sets", [follows, {}, { a: "ours", b: "ours" }]],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));

  it("do not follow a value that the API server would refuse", () => {
    const rules = inCluster({ a: copiesNote, b: when({ key: "a" }, "b") });
    expect(settled(notes("not valid"), rules)).toEqual({});
    expect(findingsOf(notes("not valid"), rules)).toEqual(["warning label/a MarkInvalid"]);
    const before = settle(notes("fine"), rulesOf(rules).labels);
    const edited = editNode(before, { annotations: { note: "not valid" } });
    expect(settled(edited, rules)).toEqual({ a: "fine", b: "true" });
  });
});

describe("foreign values", () => {
  const theirs = { a: "theirs" };
  const ours = sets("a", "ours");

  it("stay and are reported unless the rule overwrites", () => {
    expect([[inCluster({ r: ours }), theirs, theirs, []]]).toSatisfy(comeTrue);
    const found = ["warning label/a ForeignValueKept"];
    expect(findingsOf(nodeWith(theirs), inCluster({ r: ours }))).toEqual(found);
  });

  it("are replaced by a rule that overwrites", () => {
    const rules = inCluster({ r: { ...ours, overwrite: true } });
    expect([[rules, theirs, { a: "ours" }, ["overwrite label/a ForeignValueReplaced"]]]).toSatisfy(comeTrue);
  });

  it("do not come back by a rule that copies the label it sets: that one is cyclic", () => {
    const rules = inCluster({ r: { ...copies("a", "a"), overwrite: true } });
    expect(rulesOf(rules).rules.cyclic).toHaveLength(1);
    expect([[rules, theirs, theirs, []]]).toSatisfy(comeTrue);
  });
});

describe("L-B10 two rules for one label", () => {
  const same: RulesInit = { files: { a: "x" }, cluster: { r: when({ key: "y" }, "a") } };
  const [one, two] = [sets("a", "1", { key: "x" }), sets("a", "2", { key: "y" })];
  const conflict = inCluster({ one, two });
  const a = { a: "true" };
  const mixed = inCluster({ bad: copiesNote, good: sets("a") });

  it.each<[string, ...Look[]]>([
    [
      "L-B10 are merged when they want the same: either is enough",
      [same, both, { ...both, ...a }, ["add label/a RuleMatched"]],
      [same, { y: null }, { ...x, ...a }],
      [same, { x: null, ...y }, { ...y, ...a }],
      [same, { y: null }, {}],
    ],
    ["overwrite when one of them does", [same, { ...both, a: "theirs" }, { ...both, ...a }]],
    ["leave what stands when the other does", [same, { ...y, a: "theirs" }, { ...y, a: "theirs" }]],
    ["set nothing when they want different values and nothing stands", [conflict, both, both]],
    [
      "leave what stands, and end when one of them is gone",
      [conflict, x, { ...x, a: "1" }],
      [conflict, y, { ...both, a: "1" }],
      [inCluster({ two }), {}, { ...both, a: "2" }, ["overwrite label/a ValueRestored"]],
    ],
    [
      "leave what stands until both are gone",
      [conflict, x, { ...x, a: "1" }],
      [conflict, y, { ...both, a: "1" }],
      [inCluster({}), {}, both],
    ],
    ["leave what somebody else has set", [conflict, { ...both, a: "3" }, { ...both, a: "3" }]],
    ["say nothing where they do not match", [conflict, y, { ...y, a: "2" }]],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));

  it("take a value that cannot be written for no wish", () => {
    expect(settled(notes("not valid"), mixed)).toEqual(a);
  });

  it("L-B10 are listed once for the warning, not per node, and the first by name is recorded", () => {
    const { rules } = rulesOf(same);
    expect(rules.overlaps.map(({ key, claims }) => [key, claims.map(({ rule }) => rule.name)])).toEqual([
      ["a", ["cluster/r", "folder/a"]],
    ]);
    expect(plan(nodeWith(both), same)).toMatchObject({ findings: [], changes: [{ rule: "cluster/r" }] });
    const trial = rulesOf({ ...same, cluster: { r: onTrial(sets("a")) } });
    expect(trial.rules.overlaps).toEqual([]);
  });

  it("tell who wants what, and for each rule which other one is against it", () => {
    expect(findingsOf(nodeWith(both), conflict)).toEqual(["info label/a RuleConflict"]);
    expect(plan(nodeWith(both), conflict).findings[0]?.message).toBe(
      'cluster/one wants "1", cluster/two wants "2": none is set',
    );
    const [labels] = rulesOf(conflict).labels;
    expect(labels?.contribute({ node: nodeWith(both), owned: new Map() }, 0).decision.outcomes).toEqual([
      { rule: "cluster/one", conflictsWith: "cluster/two" },
      { rule: "cluster/two", conflictsWith: "cluster/one" },
    ]);
  });
});

describe("L-B10 a dry run", () => {
  const live = sets("a", "1", { key: "x" });
  const set: Look = [inCluster({ r: live }), x, { ...x, a: "1" }];
  const kept = ["keep label/a DryRun"];
  const force = { r: live, b: when({ key: "a" }, "b") };
  const expected = { ...x, a: "1", b: "true" };
  const cycle = onTrial(sets("a", "1", { key: "b" }));

  it.each<[string, ...Look[]]>([
    ...[{}, { labels: [{ key: "b" }] }, { labels: [{ key: "a", value: "2" }] }].map(
      (edit): [string, ...Look[]] => [
        `keeps what the rule has set before, whatever becomes of its inputs, with ${JSON.stringify(edit)}`,
        set,
        [inCluster({ r: { ...onTrial(live), ...edit } }), { x: null }, { a: "1" }, kept],
        [inCluster({ r: live }), {}, {}],
      ],
    ),
    ["is removed like any rule when it is deleted", set, [inCluster({}), {}, x, ["remove label/a RuleGone"]]],
    [
      "does not conflict with rules in force",
      [inCluster({ ...force, against: onTrial(sets("a", "2", { key: "x" })) }), x, expected],
    ],
    ["puts no rule out of force by a cycle", [inCluster({ ...force, cycle }), x, expected]],
    [
      "makes no rule wait",
      [
        {
          files: { frozen: undefined },
          cluster: { waits: onTrial(when({ key: "frozen" }, "n")), n: when(lacks("n"), "m") },
        },
        x,
        { ...x, m: "true" },
      ],
    ],
    ["is what a rule does that waits", [{ cluster: { r: live }, unconfirmed: ["r"] }, x, x, []]],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));

  it("L-B10 tells what the rule would do, and does nothing", () => {
    const rules = inCluster({ r: onTrial(live) });
    expect([[rules, x, x, []]]).toSatisfy(comeTrue);
    expect(plan(nodeWith(x), rules).findings).toMatchObject([
      { severity: "info", subject: "label/a", reason: "DryRun", message: 'cluster/r would set "1"' },
    ]);
    expect(rulesOf(rules).rules.count).toBe(0);
    const waiting = { cluster: { r: live }, unconfirmed: ["r"] };
    expect(findingsOf(nodeWith(x), waiting)).toEqual(["info label/a ConfirmationRequired"]);
    const cyclic = rulesOf(inCluster({ ...force, cycle })).rules.cyclic.map(({ rule }) => rule.name);
    expect(cyclic).toEqual(["cluster/cycle"]);
  });
});

describe("rules that are not in force", () => {
  const after = when({ key: "a" }, "b");
  const set: Look = [inCluster({ r: when({ key: "x" }, "a"), after }), x, { ...x, a: "true", b: "true" }];
  const marks = { a: "true", b: "true" };
  const faulty = when({ key: "x", operator: "Matches", values: ["("] }, "a");

  it.each<[string, RulesInit, string]>([
    ["cannot be read", inCluster({ r: null, after }), "RuleInvalid"],
    ["has a fault", inCluster({ r: faulty, after }), "RuleInvalid"],
    ["is cyclic", inCluster({ r: when({ key: "b" }, "b"), after }), "CyclicRule"],
  ])("keep their marks, and those count: a rule that %s", (_what, rules, reason) => {
    expect([set, [rules, { x: null }, marks, [`keep label/a ${reason}`]]]).toSatisfy(comeTrue);
  });

  const unread: RulesInit = { cluster: { after }, unread: ["cluster"] };
  const gone = ["remove label/a RuleGone", "remove label/b InputGone"];
  const other: RulesInit = { config: { other: sets("a", "2") }, cluster: { r: null } };

  it.each<[string, ...Look[]]>([
    [
      "keep their marks while their source is not read, and those count",
      set,
      [unread, { x: null }, marks, ["keep label/a SourceNotRead"]],
    ],
    ["lose them when they are deleted", set, [inCluster({ after }), { x: null }, {}, gone]],
    ["leave their labels to another rule that wants them", set, [other, { x: null }, { a: "2" }]],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});

describe("a rule for the absence of a label whose rule is refused", () => {
  const gpu = when({ key: "x", operator: "Matches", values: ["("] }, "gpu");
  const cyclic = when({ key: "gpu" }, "gpu");
  const cpuOnly = when(lacks("gpu"), "cpu-only");
  const fires = { ...x, "cpu-only": "true" };
  const reserved: SpecInit = { labels: [{ key: "gpu" }, { key: "kubernetes.io/gpu" }] };

  it.each<[string, RulesInit]>([
    ["has a fault", inCluster({ gpu, cpuOnly })],
    ["has a fault and waits to be confirmed", { cluster: { gpu, cpuOnly }, unconfirmed: ["gpu"] }],
    ["sets a reserved label too", inCluster({ gpu: reserved, cpuOnly })],
    ["is cyclic", inCluster({ gpu: cyclic, cpuOnly })],
    ["is a file with a faulty line", { files: { gpu: "x y" }, format: "Extended", cluster: { cpuOnly } }],
  ])("does not fire on a fresh node: !gpu -> cpu-only, where the rule of gpu %s", (_what, rules) => {
    expect([[rules, x, x]]).toSatisfy(comeTrue);
    // It stands, whoever set it: that much is known.
    expect([[rules, { gpu: "1" }, { gpu: "1" }]]).toSatisfy(comeTrue);
  });

  it.each<[string, RulesInit]>([
    ["has a fault", inCluster({ gpu: onTrial(gpu), cpuOnly })],
    ["is cyclic", inCluster({ gpu: onTrial(cyclic), cpuOnly })],
    ["is cyclic and waits", { cluster: { gpu: cyclic, cpuOnly }, unconfirmed: ["gpu"] }],
    ["cannot be read, so that its labels are not known", inCluster({ gpu: null, cpuOnly })],
  ])("fires where that rule was on trial, which makes nothing unknown: it %s", (_what, rules) => {
    expect([...rulesOf(rules).rules.frozen]).toEqual([]);
    expect([[rules, x, fires]]).toSatisfy(comeTrue);
  });

  it("does not fire, and goes, once another rule wants the label", () => {
    const rules: RulesInit = { config: { other: when({ key: "y" }, "gpu") }, cluster: { gpu, cpuOnly } };
    expect([[rules, x, x]]).toSatisfy(comeTrue);
    expect([
      [inCluster({ cpuOnly }), x, fires],
      [rules, {}, fires],
      [rules, y, { ...both, gpu: "true" }],
    ]).toSatisfy(comeTrue);
  });

  it("fires again once the fault is mended", () => {
    expect([[inCluster({ gpu: when({ key: "y" }, "gpu"), cpuOnly }), x, fires]]).toSatisfy(comeTrue);
  });

  it("is told why, one reason for a key whatever the order", () => {
    const expected = new Map([
      ["gpu", "RuleInvalid"],
      ["kubernetes.io/gpu", "ReservedLabelKey"],
    ]);
    for (const rules of [inCluster({ gpu, reserved }), inCluster({ reserved, gpu })])
      expect(rulesOf(rules).rules.frozen).toEqual(expected);
    const set: Look = [inCluster({ gpu: when({ key: "x" }, "gpu") }), x, { ...x, gpu: "true" }];
    expect([set, [inCluster({ gpu }), {}, set[2], ["keep label/gpu RuleInvalid"]]]).toSatisfy(comeTrue);
  });
});

describe("L-B9 cycles", () => {
  it("L-B9 of rules that copy each other's label are refused by the one that closes them, and the rest is in force", () => {
    const rules = inCluster({ ba: copies("b", "a"), ab: copies("a", "b"), c: copies("x", "c") });
    const { cyclic } = rulesOf(rules).rules;
    expect(cyclic.map(({ rule, keys }) => [rule.name, keys])).toEqual([["cluster/ab", ["a", "b"]]]);
    expect([[rules, { ...x, b: "mine" }, { ...x, b: "mine", a: "mine", c: "1" }]]).toSatisfy(comeTrue);
  });

  it("L-B9 of a rule with itself refuse no later rule that would be on it", () => {
    const self = { ...sets("a"), match: { all: [{ key: "a" }, { key: "b" }] } };
    const { cyclic } = rulesOf(inCluster({ self, b: when({ key: "a" }, "b") })).rules;
    expect(cyclic.map(({ rule }) => rule.name)).toEqual(["cluster/self"]);
  });

  it.each<[string, SpecInit]>([
    ["a negation of its own label", when(lacks("a"), "a")],
    [
      "a condition on its own label",
      { ...sets("a"), match: { any: [{ key: "x" }, { all: [{ key: "a" }] }] } },
    ],
    ["a template of its own label", { labels: [{ key: "a", valueTemplate: "${Label/a}-" }] }],
    [
      "a label that another output sets",
      { ...when({ key: "b" }, "a"), labels: [{ key: "a" }, { key: "b" }] },
    ],
  ])("L-B9 by %s are refused", (_what, spec) => {
    const { rules } = rulesOf(inCluster({ r: spec }));
    expect(rules.cyclic).toHaveLength(1);
    expect([...rules.withheld]).toEqual([["cluster/r", "CyclicRule"]]);
    expect([[inCluster({ r: spec }), x, x, []]]).toSatisfy(comeTrue);
  });

  const ring = { a: "b", b: "a" };
  const all = { a: "true", b: "true" };
  const breaks = sets("a", "no", { key: "y" });
  const live = sets("a", "1");
  const untold = { a: "c\nf", c: "d\ne", d: "x\na", e: "a", f: undefined };
  const theirs = { a: "theirs", b: "true" };

  it("L-B9 of plain files refuse a document that would break them", () => {
    const { cyclic } = rulesOf({ files: { a: "b\nx", b: "a" }, cluster: { breaks } }).rules;
    expect(cyclic.map(({ rule }) => rule.name)).toEqual(["cluster/breaks"]);
  });

  it.each<[string, ...Look[]]>([
    [
      "L-B9 of plain files stay in force with a document that fits",
      [{ files: ring, cluster: { fine: when({ key: "y" }, "a") } }, y, { ...y, ...all }],
    ],
    [
      "L-B9 of plain files are not broken by a refused document",
      [{ files: ring, cluster: { breaks } }, y, y],
    ],
    [
      "L-B9 of plain files leave what stands without them also while a document for it is refused",
      [{ files: ring, cluster: { breaks } }, { a: "theirs" }, theirs],
      [{ files: ring }, {}, theirs],
    ],
    [
      "L-B9 are decided whole when a rule without a trigger is on them",
      [{ files: ring, cluster: { idle: when(lacks("y"), "b") } }, {}, all],
    ],
    [
      "L-B9 are asked again for what could not be told at first",
      [{ files: untold }, x, { ...x, a: "true", c: "true", d: "true", e: "true" }],
    ],
    [
      "L-B9 leave a label as it stands that a rule on trial has set",
      [inCluster({ live }), {}, { a: "1" }],
      [{ files: { a: "a" }, cluster: { live: onTrial(live) } }, {}, { a: "1" }],
    ],
    [
      "L-B9 give what copies from them the value that stands",
      [{ files: ring, cluster: { c: copies("a", "c") } }, { a: "theirs" }, { ...theirs, c: "theirs" }],
    ],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});

describe("what cannot be told", () => {
  const rules: RulesInit = {
    files: { f: undefined },
    cluster: {
      yes: when({ key: "f" }, "a"),
      no: when(lacks("f"), "b"),
      copy: copies("f", "c"),
      either: { ...sets("d"), match: { any: [{ key: "f" }, { key: "x" }] } },
    },
  };

  it.each<[string, ...Look[]]>([
    ["keeps what depends on it", [rules, x, { ...x, d: "true" }]],
    ["keeps what depends on its absence", [rules, {}, {}]],
    ["is told where it stands", [rules, { f: "true" }, { f: "true", a: "true", c: "true", d: "true" }]],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});

describe("our own record", () => {
  it("is no fact, or a rule that asks for it would come and go for ever", () => {
    const lacksRecord = { source: "Annotation", ...lacks("berth.dev/marks") } as const;
    expect([[inCluster({ r: when(lacksRecord, "a") }), {}, { a: "true" }]]).toSatisfy(comeTrue);
  });
});

describe("what a decision compared", () => {
  const rules = rulesOf({
    cluster: {
      gpu: {
        match: {
          all: [
            { key: "x" },
            { any: [{ source: "Capacity", key: "cpu", operator: "Ge", values: ["4"] }, lacks("y")] },
          ],
        },
        labels: [{ key: "gpu" }],
      },
    },
  });
  const traced = (node: Node) =>
    traceRules("gpu", { node, owned: new Map() }, rules.labels, 0).map(({ marks, places }) => ({
      marks,
      places,
    }));

  it("is each part of the rule, also where nothing on the node could wake it", () => {
    const cpu = { what: "capacity cpu Ge 4", holds: false };
    const alternatives = {
      what: "any of",
      holds: false,
      parts: [cpu, { what: "label y DoesNotExist", value: "1", holds: false }],
    };
    const parts = [{ what: "label x Exists", holds: false }, alternatives];
    expect(traced(nodeWith(y))).toEqual([
      { marks: [], places: [{ place: "label/gpu", comparisons: [{ what: "all of", holds: false, parts }] }] },
    ]);
  });

  it("is followed by its value where it holds", () => {
    const [found] = traced(nodeWith(x));
    expect(found?.marks).toEqual(["label/gpu"]);
    expect(found?.places[0]?.comparisons.map(({ what, value, holds }) => [what, value, holds])).toEqual([
      ["all of", undefined, true],
      ["its value", "true", true],
    ]);
  });
});
