import type { Pod } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MarkId } from "../node/mark.ts";
import { capabilityContract } from "../node/testing/capability-contract.ts";
import { planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";
import { bindFootprints, decideFootprints, footprintFields } from "./capability.ts";
import type { NodeFootprintSpec } from "./document.ts";
import { footprintsOf, type Specs } from "./testing/footprints.ts";
import { makeAteom, makePod, sightOf } from "./testing/pods.ts";

const SPECS: Specs = {
  atelet: { preset: "agent-substrate/pr-134" },
  logs: { preset: "log", workloads: [{ podSelector: { matchLabels: { log: "yes" } } }] },
  gpu: { preset: "gpu", release: { delay: "0s" } },
};
const footprints = footprintsOf(SPECS);
const [PREFIX, LABEL] = ["annotation/ate.dev/claim.", "label/ate.dev/atelet"];

/** Real pools, one with a name that no claim can have, and one that never is an owner. */
const POOLS = ["A", "B", "C", "x".repeat(63), "constructor"];

interface Told {
  readonly pool: string;
  readonly owner: string;
  readonly phase: string;
  readonly isEnding: boolean;
  readonly log: boolean;
  readonly namespace: string;
}

const told: fc.Arbitrary<Told> = fc.record({
  pool: fc.constantFrom(...POOLS),
  owner: fc.constantFrom(...POOLS, ""),
  phase: fc.constantFrom("Pending", "Running", "Running", "Failed", "Succeeded"),
  isEnding: fc.boolean(),
  log: fc.boolean(),
  namespace: fc.constantFrom("a", "b", "n".repeat(63)),
});

function toPod({ pool, owner, phase, isEnding, log, namespace }: Told, at: number): Pod {
  const labels = { "ate.dev/worker-pool-uid": pool, ...(log && { log: "yes" }) };
  const owners = owner === "" ? [] : ["apps/Deployment d", `ate.dev/WorkerPool ${owner}`];
  return makePod(`p${at}`, { phase, isEnding, namespace, labels, owners });
}

const tolds = fc.array(told, { maxLength: 8 });
/** As many different pods on one node. */
const pods = tolds.map((all) => all.map(toPod));

function decide(seen: readonly Pod[], node = makeNode()) {
  return decideFootprints({ node, owned: new Map() }, footprints, {
    observations: sightOf({ pods: seen }),
  }).decision;
}

function marksOf(seen: readonly Pod[]): readonly string[] {
  return decide(seen)
    .marks.map(({ id, value }) => `${id}=${value}`)
    .sort();
}

describe("the marks of a node", () => {
  it("do not depend on the order of its pods", () => {
    fc.assert(
      fc.property(
        pods.chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length }))),
        ([one, other]) => {
          expect(marksOf(other)).toEqual(marksOf(one));
          expect(new Set(decide(other).findings)).toEqual(new Set(decide(one).findings));
        },
      ),
    );
  });

  it("are never less by one more pod", () => {
    fc.assert(
      fc.property(pods, (all) => {
        const needed = (seen: readonly Pod[]) => marksOf(seen).filter((mark) => !mark.endsWith("=false"));
        const more = new Set(needed(all));
        for (const mark of needed(all.slice(1))) expect(more).toContain(mark);
      }),
    );
  });

  it("are claims of exactly the groups of pods that count, with the label if there is one", () => {
    fc.assert(
      fc.property(tolds, (all) => {
        const counting = all.filter(
          ({ pool, owner, phase }) =>
            pool === owner && pool.length < 63 && phase !== "Failed" && phase !== "Succeeded",
        );
        const ids = decide(all.map(toPod)).marks.map(({ id }) => id);
        const claims = ids.filter((id) => id.startsWith(PREFIX)).map((id) => id.slice(PREFIX.length));
        expect(new Set(claims)).toEqual(new Set(counting.map(({ pool }) => pool)));
        expect(claims.length).toBe(new Set(claims).size);
        expect(ids.filter((id) => id === LABEL)).toHaveLength(counting.length > 0 ? 1 : 0);
      }),
    );
  });

  it("settle at once, from whatever stood before, and leave what is not theirs", () => {
    const stood = fc.subarray<MarkId>([
      "label/ate.dev/atelet",
      "annotation/ate.dev/claim.A",
      "annotation/ate.dev/claim.forged",
      "label/footprint.berth.dev/gpu",
      "label/ate.dev/other",
      "annotation/ate.dev/claims",
    ]);
    fc.assert(
      fc.property(stood, fc.array(pods, { minLength: 1, maxLength: 4 }), (ids, life) => {
        const keys = (kind: string) =>
          Object.fromEntries(
            ids.flatMap((id) => (id.startsWith(kind) ? [[id.slice(kind.length), "x"]] : [])),
          );
        let node = editNode(makeNode(), { labels: keys("label/"), annotations: keys("annotation/") });
        for (const seen of life) {
          const on = [
            bindFootprints({ footprints: () => footprints, observations: sightOf({ pods: seen }) }),
          ];
          node = settle(node, on);
          expect(planWith(node, on).changes).toEqual([]);
        }
        const { labels, annotations } = node.metadata ?? {};
        expect(labels?.["ate.dev/other"] !== undefined).toBe(ids.includes("label/ate.dev/other"));
        expect(annotations?.["ate.dev/claims"] !== undefined).toBe(ids.includes("annotation/ate.dev/claims"));
        expect(annotations).not.toHaveProperty(["ate.dev/claim.forged"]);
      }),
    );
  });

  it("are never refused by the API server's rules", () => {
    fc.assert(
      fc.property(pods, (all) => {
        const on = [bindFootprints({ footprints: () => footprints, observations: sightOf({ pods: all }) })];
        const reasons = new Set(planWith(makeNode(), on).findings.map(({ reason }) => reason));
        expect(reasons.has("MarkInvalid") || reasons.has("ProtectedKey") || reasons.has("MarkConflict")).toBe(
          false,
        );
      }),
    );
  });
});

/** On nodes `a` of the contract nobody needs anything; on `b` pods of two pools do. */
const world = sightOf({
  pods: [
    makeAteom("A", "a", { node: "b" }),
    makeAteom("B", "b", { node: "b" }),
    makePod("l", { node: "b", labels: { log: "yes" } }),
  ],
});
const boundTo = (specs: Readonly<Record<string, NodeFootprintSpec>>) => {
  const compiled = footprintsOf(specs);
  return bindFootprints({ footprints: () => compiled, observations: world });
};

capabilityContract({
  enabled: boundTo({ ...SPECS, kept: { preset: "gpu", node: { foreign: "Preserve" } } }),
  disabled: boundTo({}),
  fields: footprintFields,
  nodes: fc
    .record({
      name: fc.constantFrom("a", "b"),
      labels: fc.constantFrom<Record<string, string>>({}, { "ate.dev/atelet": "true" }, { theirs: "1" }),
      annotations: fc.constantFrom<Record<string, string>>({}, { "ate.dev/claim.A": "", theirs: "1" }),
    })
    .map((init) => makeNode(init)),
  edits: fc.oneof(
    fc.constantFrom(null, "true", "x").map((it) => ({ labels: { "ate.dev/atelet": it } })),
    fc
      .constantFrom(null, "", "x")
      .map((it) => ({ annotations: { "ate.dev/claim.A": it, "ate.dev/claim.X": it } })),
    fc.constantFrom(null, "false", "x").map((it) => ({ labels: { "footprint.berth.dev/gpu": it } })),
  ),
});
