import type { Node } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { BoundCapability } from "./capability.ts";
import { type Mark, type MarkId, standingMarks } from "./mark.ts";
import { buildPatch } from "./patch.ts";
import { recordOf } from "./record.ts";
import { planWith } from "./testing/labels.ts";
import { capabilityOf, wish } from "./testing/stub.ts";
import { editNode, makeNode, patchNode } from "./testing/world.ts";

const ids: readonly MarkId[] = [
  "label/a",
  "label/b",
  "label/k8s.io/p",
  "annotation/c",
  "annotation/claim.1",
  "taint/t:NoSchedule",
  "taint/t:NoExecute",
  "unschedulable",
];
const id = fc.constantFrom(...ids);
const value = fc.constantFrom("", "1", "2", "not valid");

const mark = fc
  .record({
    id,
    value,
    foreign: fc.constantFrom("overwrite" as const, "leave" as const),
    rule: fc.constantFrom("made-up/rule", "other/rule"),
  })
  .map(({ id, value, ...more }): Mark => wish(id, id === "unschedulable" ? "true" : value, more));
const capability = (name: string) =>
  fc
    .record({
      marks: fc.uniqueArray(mark, { maxLength: 5, selector: (it) => it.id }),
      keep: fc.uniqueArray(id, { maxLength: 2 }),
      exclusive: fc.uniqueArray(id, { maxLength: 2 }),
      declared: fc.uniqueArray(id, { maxLength: 4 }),
      sources: fc.subarray(["made-up", "other"]),
    })
    .map(({ marks, keep, exclusive, declared, sources }) => {
      const set = (of: readonly string[]) => ({ ids: new Set(of), prefixes: [] });
      const policy = {
        sourcesRead: new Set(sources),
        declared: set(declared),
        allowedProtected: set(declared),
        exclusive: set(exclusive),
      };
      return capabilityOf(name, marks, {
        policy,
        decision: { keep: new Map(keep.map((it) => [it, "RuleUnreadable"])) },
      });
    });
const capabilities = fc
  .tuple(capability("a"), capability("b"), fc.boolean())
  .map(([a, b, both]): readonly BoundCapability[] => (both ? [a, b] : [a]));

const record = fc.constantFrom(
  undefined,
  null,
  "{",
  '{"v":2,"by":"berth","marks":{}}',
  '{"v":1,"by":"other","marks":{"label/a":{"c":"a","r":"made-up/rule","since":"s"}}}',
  '{"v":1,"by":"berth","marks":{"label/k8s.io/p":{"c":"a","r":"made-up/rule","since":"s"}}}',
);
const edit = fc.record({
  labels: fc.dictionary(fc.constantFrom("a", "b", "k8s.io/p", "foreign"), fc.constantFrom("1", "3", null)),
  annotations: fc.dictionary(fc.constantFrom("c", "claim.1", "foreign"), fc.constantFrom("1", "3", null)),
  taints: fc.option(
    fc.uniqueArray(
      fc.record({ key: fc.constantFrom("t", "foreign"), effect: fc.constantFrom("NoSchedule", "NoExecute") }),
      { maxLength: 3, selector: ({ key, effect }) => `${key}:${effect}` },
    ),
    { nil: undefined },
  ),
  unschedulable: fc.constantFrom(true, null, undefined),
  record,
});
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

function byHand(node: Node, { labels, annotations, taints, unschedulable, record }: Edit): Node {
  return editNode(node, {
    labels,
    annotations: { ...annotations, ...(record === undefined ? {} : { "berth.dev/marks": record }) },
    spec: { ...(taints && { taints }), ...(unschedulable !== undefined && { unschedulable }) },
  });
}

const story = fc.array(fc.record({ edit, capabilities }), { minLength: 1, maxLength: 6 });

describe("any plan", () => {
  it("touches only what is wanted, recorded by this installation, or exclusive, and then is empty", () => {
    fc.assert(
      fc.property(story, (steps) => {
        let node = makeNode();
        for (const { edit, capabilities } of steps) {
          node = byHand(node, edit);
          const before = new Map([...standingMarks(node)].map((it) => [it.id, it.value]));
          const { patch } = planWith(node, capabilities);
          const after = patch === undefined ? node : patchNode(node, patch);
          expect(planWith(after, capabilities)).toMatchObject({ changes: [] });
          expect(planWith(after, capabilities).patch).toBeUndefined();
          const now = new Map([...standingMarks(after)].map((it) => [it.id, it.value]));
          const read = recordOf(node);
          const owned = read.state === "read" ? read.record.marks : new Map();
          const contributions = capabilities.map((it) => it.contribute({ node, owned: new Map() }, 0));
          for (const place of new Set([...before.keys(), ...now.keys()])) {
            if (before.get(place) === now.get(place) || place === "annotation/berth.dev/marks") continue;
            const wanted = contributions.some(({ decision }) => decision.marks.some((it) => it.id === place));
            const exclusive = contributions.some(({ policy }) => policy.exclusive.ids.has(place));
            const ours = owned.get(place)?.by === "berth";
            expect({ place, touchable: wanted || exclusive || ours }).toEqual({ place, touchable: true });
          }
          node = after;
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("ends in the same state when its changes are sent one by one", () => {
    fc.assert(
      fc.property(edit, capabilities, (edit, capabilities) => {
        const start = byHand(makeNode(), edit);
        const plan = planWith(start, capabilities);
        const atOnce = plan.patch === undefined ? start : patchNode(start, plan.patch);
        let node = start;
        for (const { id } of plan.changes) {
          const now = planWith(node, capabilities);
          const patch = buildPatch(
            node,
            now.base,
            now.changes.filter((change) => change.id === id),
          );
          if (patch !== undefined) node = patchNode(node, patch);
        }
        expect(sorted(node)).toEqual(sorted(atOnce));
      }),
      { numRuns: 500 },
    );
  });
});

function sorted(node: Node): unknown {
  return [...standingMarks(node)].map(({ id, value }) => `${id}=${value}`).sort();
}
