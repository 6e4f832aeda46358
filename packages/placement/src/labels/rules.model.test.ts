/** Random rules, nodes and histories, held against a reference that knows nothing of order, index or compiling. */

import { keepFields } from "@berth/host";
import type { Node } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { nothingWanted } from "../node/capability.ts";
import { labelId, parseMarkId } from "../node/mark.ts";
import type { NodePlan } from "../node/plan.ts";
import { ownedMarks, type RecordedMark, recordOf } from "../node/record.ts";
import { bindLabels, labelsOf, planWith } from "../node/testing/labels.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import { labelValueProblem } from "../node/validate.ts";
import { decideLabels } from "./decide.ts";
import { labelFields } from "./facts.ts";
import type { LabelRules } from "./rules.ts";
import {
  FOREIGN_KEYS,
  type ModelRules,
  modelRules,
  OWN_KEYS,
  toEngine,
  toReference,
} from "./testing/model-rules.ts";
import {
  decideByReference,
  frozenKeys,
  holdsOn,
  type ReferenceRules,
  untangle,
} from "./testing/reference-rules.ts";

const INSTALLATIONS = ["berth", "other"] as const;
type Installation = (typeof INSTALLATIONS)[number];

const anyKey = fc.constantFrom(...OWN_KEYS, ...FOREIGN_KEYS);
const labels = fc.dictionary(anyKey, fc.constantFrom("true", "1", "2", null), { maxKeys: 3 });
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant("label" as const), labels }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("facts" as const),
      note: fc.constantFrom("v1", "v2", "not valid", null),
      cpu: fc.constantFrom("2", "8"),
      architecture: fc.constantFrom("arm64", ""),
      ready: fc.constantFrom("True", "False", undefined),
      gpu: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("rules" as const),
      who: fc.constantFrom<Installation>("berth", "berth", "berth", "other"),
      rules: modelRules,
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const history = fc.record({
  labels: fc.dictionary(anyKey, fc.constantFrom("true", "1", "2"), { maxKeys: 4 }),
  berth: modelRules,
  other: fc.option(modelRules, { nil: undefined, freq: 3 }),
  steps: fc.array(step, { maxLength: 5 }),
});

function edited(node: Node, step: Step): Node {
  if (step.do === "label") return editNode(node, { labels: step.labels });
  if (step.do === "rules") return node;
  const { note, cpu, architecture, ready, gpu } = step;
  return patchNode(node, {
    metadata: { annotations: { note } },
    spec: { taints: gpu ? [{ key: "gpu", effect: "NoSchedule" }] : [] },
    status: {
      capacity: { cpu },
      nodeInfo: { architecture },
      conditions: ready === undefined ? [] : [{ type: "Ready", status: ready }],
    },
  });
}

interface Installed {
  readonly name: Installation;
  readonly model: ModelRules;
  readonly engine: LabelRules;
  readonly reference: ReferenceRules;
}

function install(name: Installation, model: ModelRules): Installed {
  return { name, model, engine: toEngine(model), reference: toReference(model) };
}

function planOf(node: Node, { name, engine }: Installed): NodePlan {
  return planWith(node, [bindLabels(() => engine)], { installation: name });
}

/** The labels that this installation has recorded as its own. */
function ownedBy(node: Node, name: Installation): ReadonlyMap<string, RecordedMark> {
  const owned = ownedMarks(recordOf(node), name);
  return new Map([...owned].map(([id, mark]) => [parseMarkId(id)?.key ?? id, mark]));
}

/** What the rules say, and what the node looks like afterwards, as the reference has it. */
function expectationOf(node: Node, { name, reference }: Installed) {
  const owned = ownedBy(node, name);
  const { wanted, kept } = decideByReference(reference, node, owned);
  const others = new Map(
    INSTALLATIONS.filter((it) => it !== name).flatMap((it) => Array.from(ownedBy(node, it))),
  );
  const after = new Map(Object.entries(labelsOf(node)));
  for (const [key, { value, overwrite }] of wanted) {
    const free = !after.has(key) || owned.has(key) || (overwrite && !others.has(key));
    if (free) after.set(key, value);
  }
  for (const [key, { rule }] of owned) {
    const read = reference.sourcesRead.has(rule.replace(/\/.*/, ""));
    if (!wanted.has(key) && !kept.has(key) && read) after.delete(key);
  }
  return { wanted, kept, after, others };
}

function check(node: Node, installed: Installed): Node {
  const { name, engine, model } = installed;
  const { wanted, kept, after, others } = expectationOf(node, installed);
  const view = { node, owned: ownedMarks(recordOf(node), name) };
  const decision = decideLabels(view, engine);
  // As the reference has it.
  expect(decision.marks.map(({ id, value, rule, foreign }) => [id, value, rule, foreign])).toEqual(
    [...wanted]
      .map(([key, it]) => [labelId(key), it.value, it.rule, it.overwrite ? "overwrite" : "leave"])
      .sort(([a], [b]) => ((a ?? "") < (b ?? "") ? -1 : 1)),
  );
  const keep = [...decision.keep].filter(([id]) => !wanted.has(parseMarkId(id)?.key ?? ""));
  expect(new Map(keep)).toEqual(new Map([...kept].map(([key, reason]) => [labelId(key), reason])));
  // The same whatever the order of sources, rules and labels.
  const turned = { ...node, metadata: { ...node.metadata, labels: backwards(labelsOf(node)) } };
  const again = decideLabels({ ...view, node: turned }, toEngine(model, true));
  expect(again).toEqual(decision);
  // One write, and the labels are as they should be.
  const plan = planOf(node, installed);
  const settled = plan.patch === undefined ? node : patchNode(node, plan.patch);
  expect(new Map(Object.entries(labelsOf(settled)))).toEqual(after);
  const second = planOf(settled, installed);
  expect(second.changes).toEqual([]);
  expect(second.patch).toBeUndefined();
  checkTruth(settled, installed, new Set(others.keys()));
  checkTrial(view, installed);
  return settled;
}

/** What stands is what the rules say of what stands: no label without a reason, and no reason without its label. */
function checkTruth(node: Node, { name, reference }: Installed, others: ReadonlySet<string>): void {
  // What another installation holds cannot be told from what anybody else set until the plan is made.
  if (others.size > 0) return;
  const untangled = untangle(reference.rules);
  const { rules, circular } = untangled;
  const { kept } = decideByReference(reference, node, ownedBy(node, name));
  const labels = new Map(Object.entries(labelsOf(node)));
  const owned = ownedBy(node, name);
  const inForce = rules.filter(({ dryRun }) => !dryRun);
  const wishes = (key: string) =>
    inForce.flatMap(({ outputs }) =>
      outputs.filter((it) => it.key === key).map(({ cases }) => holdsOn(cases, node) ?? ""),
    );
  for (const [key, { rule }] of owned) {
    const read = reference.sourcesRead.has(rule.replace(/\/.*/, ""));
    if (!kept.has(key) && read)
      expect({ key, wishes: wishes(key) }).toEqual({
        key,
        wishes: expect.arrayContaining([labels.get(key)]),
      });
  }
  if (frozenKeys(reference, untangled).size > 0) return;
  for (const { overwrite, outputs } of inForce)
    for (const { key, cases } of outputs) {
      const wish = holdsOn(cases, node);
      if (wish === undefined || kept.has(key) || labelValueProblem(wish) !== undefined) continue;
      // On a cycle it may be left as it stands.
      const foreign = circular.has(key) || (!owned.has(key) && !overwrite);
      expect({ key, stands: foreign ? labels.has(key) : labels.get(key) }).toEqual({
        key,
        stands: foreign || wish,
      });
    }
}

/** A rule on trial makes no difference and nothing unknown, as long as nothing stands that it had set before. */
function checkTrial(view: Parameters<typeof decideLabels>[0], { model, engine }: Installed): void {
  const trials = [...model.config, ...model.cluster].filter(({ dryRun }) => dryRun);
  const recorded = [...view.owned.values()].some(({ rule }) => engine.withheld.has(rule));
  if (trials.length === 0 || recorded) return;
  const without = toEngine({
    ...model,
    config: model.config.filter(({ dryRun }) => !dryRun),
    cluster: model.cluster.filter(({ dryRun }) => !dryRun),
  });
  const [withTrials, expected] = [decideLabels(view, engine), decideLabels(view, without)];
  expect(withTrials.marks).toEqual(expected.marks);
  expect(withTrials.keep).toEqual(expected.keep);
}

function backwards(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).toReversed());
}

describe("any rules on any node, in any history", () => {
  const run = seededRun(400, process.env);
  it(`set in one write what the reference says, and nothing else (${run.name})`, run.options, () => {
    fc.assert(
      fc.property(history, ({ labels, berth, other, steps }) => {
        let node = makeNode({ labels });
        const installed = new Map([["berth", install("berth", berth)]]);
        if (other !== undefined) installed.set("other", install("other", other));
        for (const step of [undefined, ...steps]) {
          if (step !== undefined) node = edited(node, step);
          if (step?.do === "rules") installed.set(step.who, install(step.who, step.rules));
          for (const one of installed.values()) node = check(node, one);
        }
        // Nobody but us on the node: there is nothing left to do, however often it is asked.
        const alone = installed.size === 1 ? [...installed.values()] : [];
        expect(alone.flatMap((one) => planOf(node, one).changes)).toEqual([]);
      }),
      run.parameters,
    );
  });

  const few = seededRun(200, process.env);
  it(`read no field of a node that labels do not declare (${few.name})`, few.options, () => {
    const keep = keepFields<Node>(labelFields);
    const facts = step.filter((it) => it.do === "facts");
    fc.assert(
      fc.property(modelRules, labels, facts, (model, labels, facts) => {
        const node = edited(edited(makeNode(), { do: "label", labels }), facts);
        const [rules, owned] = [toEngine(model), new Map()];
        const seen = keep(structuredClone(node));
        expect(decideLabels({ node: seen, owned }, rules)).toEqual(decideLabels({ node, owned }, rules));
      }),
      few.parameters,
    );
  });

  it(`cost nothing where no rule is interested (${few.name})`, few.options, () => {
    fc.assert(
      fc.property(modelRules, (model) => {
        const rules = toEngine(model);
        fc.pre(rules.untriggered.length === 0 && rules.frozen.size === 0);
        const node = makeNode({ labels: { "no-rule-names-this": "1" } });
        expect(decideLabels({ node, owned: new Map() }, rules)).toBe(nothingWanted);
      }),
      few.parameters,
    );
  });
});
