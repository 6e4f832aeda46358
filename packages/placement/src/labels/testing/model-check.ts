/** Holds one look of the engine at one node against the reference. */
import type { Node } from "@berth/kube";
import { expect } from "vitest";
import { labelId, parseMarkId } from "../../node/mark.ts";
import type { NodePlan } from "../../node/plan.ts";
import { ownedMarks, type RecordedMark, recordOf } from "../../node/record.ts";
import { bindLabels, labelsOf, planWith } from "../../node/testing/labels.ts";
import { patchNode } from "../../node/testing/world.ts";
import { labelValueProblem } from "../../node/validate.ts";
import { decideLabels } from "../decide.ts";
import type { LabelRules } from "../rules.ts";
import { type ModelRules, toEngine, toReference } from "./model-rules.ts";
import { decideByReference, frozenKeys, holdsOn, type ReferenceRules, untangle } from "./reference-rules.ts";

const INSTALLATIONS = ["berth", "other"] as const;
export type Installation = (typeof INSTALLATIONS)[number];

export interface Installed {
  readonly name: Installation;
  readonly model: ModelRules;
  readonly engine: LabelRules;
  readonly reference: ReferenceRules;
}

export function install(name: Installation, model: ModelRules): Installed {
  return { name, model, engine: toEngine(model), reference: toReference(model) };
}

export function planOf(node: Node, { name, engine }: Installed): NodePlan {
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

export function check(node: Node, installed: Installed): Node {
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
  // The same whatever the order of sources, rules and labels. Only of rules on a cycle the first stay in force.
  const turned = { ...node, metadata: { ...node.metadata, labels: backwards(labelsOf(node)) } };
  const again = decideLabels({ ...view, node: turned }, toEngine(model, engine.cyclic.length === 0));
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
