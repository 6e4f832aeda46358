import { type FieldMask, keepFields } from "@berth/host";
import type { Node } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { BoundCapability } from "../capability.ts";
import { Trace } from "../explain/trace.ts";
import { type MarkId, standingMarks } from "../mark.ts";
import { buildPatch } from "../patch.ts";
import type { NodePlan } from "../plan.ts";
import { ownedMarks, recordOf } from "../record.ts";
import { planWith, settle } from "./labels.ts";
import { editNode, patchNode } from "./world.ts";

/** A capability with some policy, the same one with its policy withdrawn, and a world for it to live in. */
export interface ContractSubject {
  readonly enabled: BoundCapability;
  /** Its sources have been read and hold nothing. */
  readonly disabled: BoundCapability;
  /** The fields of a Node that it declares. */
  readonly fields: FieldMask;
  readonly nodes: fc.Arbitrary<Node>;
  /** What other writers do to a node. */
  readonly edits: fc.Arbitrary<Parameters<typeof editNode>[1]>;
}

/** What every node capability promises, whatever it decides. */
export function capabilityContract({ enabled, disabled, fields, nodes, edits }: ContractSubject): void {
  const lives = fc.tuple(nodes, fc.array(edits, { maxLength: 5 }));
  const on = [enabled];
  describe(`the contract of a capability: ${enabled.name}`, () => {
    it("writes nothing in the second pass", () => {
      fc.assert(
        fc.property(lives, ([start, edits]) => {
          let node = start;
          for (const edit of edits) {
            node = settle(editNode(node, edit), on);
            expect(planWith(node, on).changes).toEqual([]);
          }
        }),
      );
    });

    it("converges when it is restarted after any part of its work", () => {
      fc.assert(
        fc.property(nodes, edits, fc.infiniteStream(fc.boolean()), (start, edit, done) => {
          const node = editNode(start, edit);
          const plan = planWith(node, on);
          const part = plan.changes.filter(() => done.next().value === true);
          const patch = buildPatch(node, plan.base, part);
          const interrupted = patch === undefined ? node : patchNode(node, patch);
          expect(content(settle(interrupted, on))).toEqual(content(settle(node, on)));
        }),
      );
    });

    it("cleans up when its policy is withdrawn, its record included", () => {
      fc.assert(
        fc.property(lives, ([start, edits]) => {
          const node = edits.reduce((node, edit) => settle(editNode(node, edit), on), start);
          const owned = ownedMarks(recordOf(node), "berth");
          const after = settle(node, [disabled]);
          const left = new Set([...standingMarks(after)].map(({ id }) => id));
          expect([...owned.keys()].filter((id) => left.has(id))).toEqual([]);
          expect(recordOf(after).state).toBe("absent");
        }),
      );
    });

    it("decides by the fields that it declares as by the whole node", () => {
      const keep = keepFields<Node>(fields);
      fc.assert(
        fc.property(lives, ([start, edits]) => {
          let whole = withMore(start);
          for (const edit of edits) {
            whole = editNode(whole, edit);
            const seen = keep(structuredClone(whole));
            expect(content(seen)).not.toEqual(content(whole));
            expect(outcomeOf(planWith(seen, on))).toEqual(outcomeOf(planWith(whole, on)));
            whole = settle(whole, on);
          }
        }),
      );
    });

    it("decides the same while it notes what it compares, and notes something of each rule", () => {
      fc.assert(
        fc.property(nodes, (node) => {
          const view = { node, owned: ownedMarks(recordOf(node), "berth") };
          const { policy, decision } = enabled.contribute(view, 0);
          for (const rule of policy.rules) {
            const trace = new Trace(rule);
            expect(enabled.contribute({ ...view, trace }, 0).decision).toEqual(decision);
            expect(trace.found.length).toBeGreaterThan(0);
          }
        }),
      );
    });

    it("leaves everything else on the node as it is", () => {
      fc.assert(
        fc.property(nodes, edits, (start, edit) => {
          const node = editNode(start, edit);
          const changed = new Set<MarkId>(planWith(node, on).changes.map(({ id }) => id));
          changed.add("annotation/berth.dev/marks");
          expect(content(settle(node, on), changed)).toEqual(content(node, changed));
        }),
      );
    });
  });
}

/** The node with what no capability has to look at. */
function withMore({ metadata, spec, status }: Node): Node {
  return {
    metadata: { ...metadata, generation: 3, managedFields: [{ manager: "kubelet", operation: "Update" }] },
    spec: { ...spec, providerID: "example:///1", podCIDR: "10.0.0.0/24" },
    status: {
      ...status,
      images: [{ names: ["a"] }],
      addresses: [{ type: "InternalIP", address: "10.0.0.1" }],
    },
  };
}

function outcomeOf({ node: _node, base: _base, ...outcome }: NodePlan): unknown {
  return outcome;
}

/** All that a node holds, marks one by one so that some can be left out. Versions do not count. */
function content(node: Node, without: ReadonlySet<MarkId> = new Set()): unknown {
  const { metadata, spec, ...rest } = node;
  const { labels: _labels, annotations: _annotations, resourceVersion: _version, ...meta } = metadata ?? {};
  const { taints: _taints, unschedulable: _unschedulable, ...others } = spec ?? {};
  const marks = [...standingMarks(node)].filter(({ id }) => !without.has(id));
  return { rest, meta, others, marks: marks.map(({ id, value }) => `${id}=${value}`).sort() };
}
