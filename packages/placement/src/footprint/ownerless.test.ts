/** Pods without an owner: which of them count, and for how long. */
import type { Pod } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { editNode, makeNode } from "../node/testing/world.ts";
import type { NodeFootprintSpec } from "./document.ts";
import { bare, NodeWorld } from "./testing/node-world.ts";
import { makeAteom } from "./testing/pods.ts";

const BY_LABEL: NodeFootprintSpec = { preset: "agent-substrate/pr-134" };
const BY_OWNER: NodeFootprintSpec = { preset: "agent-substrate/owner-uid" };
const WITHOUT_CLAIMS: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool", operator: "Exists" }] } }],
  group: { by: "OwnerUID", owner: { group: "ate.dev", kind: "WorkerPool" } },
  node: { label: { key: "ate.dev/atelet" } },
};

it("F-E6 a pod whose label becomes that of another owner counts for none, and again once it is as it was", () => {
  const world = new NodeWorld(BY_LABEL);
  const [a, ofA] = [makeAteom("A", "p"), { owners: ["ate.dev/WorkerPool A"] }];
  expect(world.see(a)).toBe("A");
  expect(world.see(makeAteom("B", "p", ofA))).toBe("none");
  expect(world.findings).toEqual([expect.stringContaining("FootprintGroupRefused")]);
  expect(world.see(bare("B", "p"))).toBe("none");
  expect(world.see(bare("A", "p"))).toBe("A");
  expect(world.see(a)).toBe("A");
});

describe.each([
  ["a label", BY_LABEL],
  ["owners", BY_OWNER],
])("a pod that %s groups", (_by, spec) => {
  it.each<[string, ...string[]]>([
    [
      "counts for the owner that it was seen with, until it ends, and nothing else stays for it",
      "A/a B/b => A B",
      "A/a! => A (Needed)",
      " => none",
    ],
    [
      "keeps nothing when it comes without an owner, from whatever namespace, be it that all stands",
      "A/a => A",
      "A/a A/thief!stranger A/neighbour! => A",
      "A/thief!stranger A/neighbour! => none (Idle)",
    ],
    [
      "keeps nothing that another pod accounts for at the first look, nor once that is gone",
      "A/a => A",
      "restart: A/a A/thief!stranger => A",
      "A/thief!stranger => none",
      "restart: A/thief!stranger => none",
    ],
    [
      "keeps its claim when its owner went while no process was there, again and again",
      "A/a B/b => A B",
      ...Array.from({ length: 3 }, () => "restart: A/a! B/b => A B (Needed)"),
      "A/a! => A",
      "B/late! => none",
    ],
    [
      "keeps no more after the first look than stood then",
      "A/a => A",
      "restart: A/a! => A",
      "A/a! C/c => A C",
      "A/a! => A",
    ],
    [
      "is not judged at a first look before all owners are known",
      "A/a => A",
      "hide a",
      "restart: A/a A/thief!stranger => A (Unknown)",
      "hide",
      "A/a A/thief!stranger => A",
      "A/thief!stranger => none",
    ],
    [
      "keeps what it was seen with while others are not known",
      "A/a => A",
      "hide a c",
      "A/a C/c => A",
      "hide c",
      "A/a! C/c => A",
      "hide",
      "A/a! C/c => A C",
      "A/a! => A",
    ],
    [
      "counts when its owner could not be read until it was gone, beside one that has ended",
      "A/a => A",
      "hide late",
      "A/a A/late => A",
      "A/late => A",
      "hide",
      "A/late! => A",
      "A/late! A/thief!stranger => A",
      "A/thief!stranger => none",
    ],
    [
      "that could not be read is none of a claim that others stand for",
      "A/a => A",
      "hide thief",
      "A/a A/thief!stranger => A",
      "hide",
      "A/a A/thief!stranger => A",
      "A/thief!stranger => none",
    ],
    [
      "counts when its pods were not read while it came and its owner went",
      "A/a => A",
      "unread => A",
      "A/b! => A",
    ],
    ["brings nothing to a node where nothing stands", "A/a! => none", "restart: A/a! => none"],
  ])("%s", (_name, ...story) => {
    const world = new NodeWorld(spec);
    expect(story.map((line) => world.tell(line))).toEqual(story);
  });

  it("is told of while it counts without its owner", () => {
    const world = new NodeWorld(spec);
    world.see(makeAteom("A", "a"));
    world.see(bare("A", "a"));
    expect(world.findings).toEqual([
      "FootprintOwnerless: default/a: lost its owner, and counts for that owner until the pod ends",
    ]);
  });

  it("brings back what was taken off by hand", () => {
    const world = new NodeWorld(spec);
    world.see(makeAteom("A", "a"));
    world.see(bare("A", "a"));
    world.node = editNode(world.node, {
      labels: { "ate.dev/atelet": null },
      annotations: { "ate.dev/claim.A": null },
    });
    expect(world.see(bare("A", "a"))).toBe("A");
  });

  it("counts when its node was left alone while it came and its owner went", () => {
    const world = new NodeWorld(spec);
    world.see(makeAteom("A", "a"));
    world.edit({
      ...spec,
      node: { ...spec.node, excludeSelector: { matchLabels: { maintenance: "true" } } },
    });
    world.see(makeAteom("A", "a"));
    world.node = editNode(world.node, { labels: { maintenance: "true" } });
    expect(world.see(makeAteom("A", "b"))).toBe("A");
    world.node = editNode(world.node, { labels: { maintenance: null } });
    expect(world.see(bare("A", "b"))).toBe("A");
  });

  it("counts when pods were grouped by something else while it came and its owner went", () => {
    const world = new NodeWorld(spec);
    world.see(makeAteom("A", "a"));
    world.edit({ ...spec, group: { by: "Namespace" } });
    world.see(makeAteom("A", "a"), makeAteom("A", "b"));
    world.edit(spec);
    world.see(makeAteom("A", "a"), makeAteom("A", "b"));
    expect(world.see(bare("A", "b"))).toBe("A");
  });

  it("keeps no claim whose label does not stand: a kubelet can forge all but some labels", () => {
    const world = new NodeWorld(spec);
    world.see(makeAteom("A", "a"));
    world.node = editNode(world.node, { labels: { "ate.dev/atelet": null } });
    expect(world.restart(bare("A", "a"))).toBe("none");
    expect(world.phases).toEqual(["Idle"]);
  });
});

it("without claims keeps the label, and no stranger does: neither beside it nor on an idle node", () => {
  const world = new NodeWorld(WITHOUT_CLAIMS, makeNode({ name: "n1" }));
  expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
  expect(world.restart(bare("A", "thief", "stranger"))).toBe("none");
  expect(world.see(makeAteom("A", "a"))).toBe("");
  expect(world.restart(bare("A", "a"))).toBe("");
  expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
});

/** A pod of a history. `pool` is what its label says. */
interface Known {
  readonly name: string;
  readonly pool: string;
  readonly is: "owned" | "orphan" | "stranger";
}

describe("in any history", () => {
  const POOLS = ["A", "B"];
  const step = fc.oneof(
    fc.record({ does: fc.constantFrom("come", "intrude", "orphan"), pool: fc.constantFrom(...POOLS) }),
    fc.record({ does: fc.constant("go"), at: fc.nat(5) }),
    fc.constant({ does: "restart" }),
  );

  it.each([
    ["a label", BY_LABEL],
    ["owners", BY_OWNER],
  ])("claims by %s are those of pods that had owners, whatever strangers do", (_by, spec) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const world = new NodeWorld(spec);
        let pods: readonly Known[] = [];
        /** Pools that were orphaned: the next one of the name is another. */
        const gone = new Map<string, number>();
        /** By claim, strangers that nothing told from its orphans when the process began. */
        let doubted = new Map<string, readonly string[]>();
        for (const [at, one] of steps.entries()) {
          const isRestart = one.does === "restart";
          pods = after(pods, one, { name: `p${at}`, gone });
          if (isRestart) doubted = doubtsOf(pods, world.marks, spec);
          const seen = pods.map(toPod);
          const marks = isRestart ? world.restart(...seen) : world.see(...seen);
          const claims = new Set(marks === "none" ? [] : marks.split(" "));
          const wanted = new Set(pods.flatMap(({ is, pool }) => (is === "stranger" ? [] : [pool])));
          expect(claims).toEqual(claims.union(wanted));
          const isHere = (name: string): boolean => pods.some((pod) => pod.name === name);
          for (const claim of claims.difference(wanted))
            expect(doubted.get(claim)?.some(isHere), `${claim} at ${at}`).toBe(true);
        }
      }),
    );
  });
});

interface Step {
  readonly does: string;
  readonly pool?: string;
  readonly at?: number;
}

interface Past {
  /** Of the next pod. */
  readonly name: string;
  readonly gone: Map<string, number>;
}

function after(
  pods: readonly Known[],
  { does, pool = "", at }: Step,
  { name, gone }: Past,
): readonly Known[] {
  const uid = `${pool}${gone.get(pool) ?? 0}`;
  if (does === "come") return [...pods, { name, pool: uid, is: "owned" }];
  if (does === "intrude") return [...pods, { name, pool: uid, is: "stranger" }];
  if (does === "go") return pods.filter((_, index) => index !== at);
  if (does === "restart") return pods;
  gone.set(pool, (gone.get(pool) ?? 0) + 1);
  return pods.map((pod) => (pod.is === "owned" && pod.pool === uid ? { ...pod, is: "orphan" } : pod));
}

function doubtsOf(
  pods: readonly Known[],
  marks: string,
  { preset }: NodeFootprintSpec,
): Map<string, readonly string[]> {
  const strangers = pods.filter(({ is }) => is === "stranger");
  const open = marks
    .split(" ")
    .filter((claim) => !pods.some(({ is, pool }) => is === "owned" && pool === claim));
  return new Map(
    open.map((claim) => {
      // Of one without a label that names the owner it could be any.
      const naming = strangers.filter(({ pool }) => preset === BY_OWNER.preset || pool === claim);
      return [claim, naming.map(({ name }) => name)];
    }),
  );
}

function toPod({ name, pool, is }: Known): Pod {
  if (is === "owned") return makeAteom(pool, name);
  return bare(pool, name, is === "stranger" ? "stranger" : "default");
}
