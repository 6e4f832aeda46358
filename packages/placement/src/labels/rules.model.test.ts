/** Random rules, nodes and histories, held against a reference that knows nothing of order, index or compiling. */

import { keepFields } from "@berth/host";
import type { Node } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { nothingWanted } from "../node/capability.ts";
import { editNode, makeNode, patchNode } from "../node/testing/world.ts";
import { decideLabels } from "./decide.ts";
import { labelFields } from "./facts.ts";
import { check, type Installation, install, planOf } from "./testing/model-check.ts";
import { FOREIGN_KEYS, modelRules, OWN_KEYS, toEngine } from "./testing/model-rules.ts";

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
