import { expect } from "vitest";
import { labelsOf, planWith, settle } from "../../node/testing/labels.ts";
import { editNode, makeNode } from "../../node/testing/world.ts";
import { type RulesInit, rulesOf } from "./rule-set.ts";

/**
 * Rules in force, what another writer has done to the labels before, and the labels once Berth has written. Where
 * `effects` are given these are what was planned: `add label/a RuleMatched`, `keep label/b RuleUnreadable`.
 */
export type Look = readonly [
  rules: RulesInit,
  edit: Readonly<Record<string, string | null>>,
  labels: Readonly<Record<string, string>>,
  effects?: readonly string[],
];

/**
 * Looks one after the other at one node, which begins without labels. After each there is nothing left to do.
 *
 * @returns true; what did not come true is thrown, so that a test shows the difference.
 */
export function comeTrue(looks: readonly Look[]): boolean {
  let node = makeNode();
  for (const [init, edit, labels, effects] of looks) {
    const rules = rulesOf(init).labels;
    node = editNode(node, { labels: edit });
    const { changes, stays } = planWith(node, rules);
    const made = changes.map(({ action, id, reason }) => `${action} ${id} ${reason}`);
    const kept = stays.map(({ id, reason }) => `keep ${id} ${reason}`);
    if (effects !== undefined) expect([...made, ...kept]).toEqual(effects);
    node = settle(node, rules);
    expect(labelsOf(node)).toEqual(labels);
    expect(planWith(node, rules).changes).toEqual([]);
    if (!Object.keys(init).length) expect(node.metadata?.annotations ?? {}).toEqual({});
  }
  return true;
}
