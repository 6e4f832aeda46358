/** Pods without an owner: which of them count, and for how long. */
import type { Node, Pod } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { BoundCapability } from "../node/capability.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { NEW_YEAR, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";
import { bindFootprints } from "./capability.ts";
import type { NodeFootprintSpec } from "./document.ts";
import type { Footprints } from "./footprint.ts";
import { footprintsOf } from "./testing/footprints.ts";
import { makeAteom, sightOf } from "./testing/pods.ts";

const BY_LABEL: NodeFootprintSpec = { preset: "agent-substrate/pr-134" };
const BY_OWNER: NodeFootprintSpec = { preset: "agent-substrate/owner-uid" };
const WITHOUT_CLAIMS: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool", operator: "Exists" }] } }],
  group: { by: "OwnerUID", owner: { group: "ate.dev", kind: "WorkerPool" } },
  node: { label: { key: "ate.dev/atelet" } },
};

/** One node, and a process that looks at it after each change. */
class World {
  #footprints: Footprints;
  #process: BoundCapability;
  #ownersUnknown: ReadonlySet<string> = new Set();
  #pods: readonly Pod[] | undefined = [];
  node: Node;

  constructor(spec: NodeFootprintSpec, node: Node = makeNode()) {
    this.#footprints = footprintsOf({ f: spec });
    this.node = node;
    this.#process = this.#start();
  }

  #start(): BoundCapability {
    const seen = () => sightOf({ pods: this.#pods, ownersUnknown: this.#ownersUnknown });
    const sight = {
      ...seen(),
      pods: (...args: Parameters<ReturnType<typeof seen>["pods"]>) => seen().pods(...args),
      owners: (pod: Pod) => seen().owners(pod),
    };
    return bindFootprints({ footprints: () => this.#footprints, sight });
  }

  /** The document says this from now on. */
  edit(spec: NodeFootprintSpec): void {
    this.#footprints = footprintsOf({ f: spec });
  }

  /** These are the pods of the node from now on. `A C`: the claims that stand then; `none` without the label. */
  see(...pods: readonly Pod[]): string {
    this.#pods = pods;
    this.node = settle(this.node, [this.#process]);
    return this.marks;
  }

  /** The pods are not known. */
  miss(): string {
    this.#pods = undefined;
    this.node = settle(this.node, [this.#process]);
    return this.marks;
  }

  /** Another process begins, with these pods. */
  restart(...pods: readonly Pod[]): string {
    this.#process = this.#start();
    return this.see(...pods);
  }

  /** The owners of these pods, by name, cannot be read. */
  hide(...names: readonly string[]): void {
    this.#ownersUnknown = new Set(names);
  }

  get marks(): string {
    const { labels = {}, annotations = {} } = this.node.metadata ?? {};
    if (labels["ate.dev/atelet"] !== "true") return "none";
    const claims = Object.keys(annotations).flatMap((key) => key.split("ate.dev/claim.")[1] ?? []);
    return claims.sort().join(" ");
  }

  get findings(): readonly string[] {
    return planWith(this.node, [this.#process]).findings.map(
      ({ reason, message }) => `${reason}: ${message}`,
    );
  }

  get phases(): readonly unknown[] {
    const view = { node: this.node, owned: ownedMarks(recordOf(this.node), "berth") };
    const { outcomes = [] } = this.#process.contribute(view, NEW_YEAR).decision;
    return outcomes.map(({ phase }) => phase);
  }
}

/** Without any owner, wherever it is. */
const bare = (pool: string, name: string, namespace = "default"): Pod =>
  makeAteom(pool, name, { owners: [], namespace });

it("F-E6 a pod whose label becomes that of another owner counts for none, and again once it is as it was", () => {
  const world = new World(BY_LABEL);
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
  it("counts for the owner that it was seen with, until it ends, and nothing else stays for it", () => {
    const world = new World(spec);
    expect(world.see(makeAteom("A", "a"), makeAteom("B", "b"))).toBe("A B");
    expect(world.see(bare("A", "a"))).toBe("A");
    expect(world.phases).toEqual(["Needed"]);
    expect(world.findings).toEqual([
      "FootprintOwnerless: default/a: without the owner that it had, and counts for it until it ends",
    ]);
    expect(world.see()).toBe("none");
  });

  it("brings back what was taken off by hand", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.see(bare("A", "a"));
    world.node = editNode(world.node, {
      labels: { "ate.dev/atelet": null },
      annotations: { "ate.dev/claim.A": null },
    });
    expect(world.see(bare("A", "a"))).toBe("A");
  });

  it("keeps nothing when it comes without an owner, from whatever namespace, be it that all stands", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    const thieves = [bare("A", "thief", "stranger"), bare("A", "neighbour")];
    expect(world.see(makeAteom("A", "a"), ...thieves)).toBe("A");
    expect(world.see(...thieves)).toBe("none");
    expect(world.phases).toEqual(["Idle"]);
  });

  it("keeps nothing that another pod accounts for at the first look, nor once that is gone", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    expect(world.restart(makeAteom("A", "a"), bare("A", "thief", "stranger"))).toBe("A");
    expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
    expect(world.restart(bare("A", "thief", "stranger"))).toBe("none");
  });

  it("keeps its claim when its owner went while no process was there, again and again", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"), makeAteom("B", "b"));
    for (let times = 0; times < 3; times++) {
      expect(world.restart(bare("A", "a"), makeAteom("B", "b"))).toBe("A B");
      expect(world.phases).toEqual(["Needed"]);
    }
    expect(world.see(bare("A", "a"))).toBe("A");
    expect(world.see(bare("B", "late"))).toBe("none");
  });

  it("keeps no more after the first look than stood then", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.restart(bare("A", "a"));
    expect(world.see(bare("A", "a"), makeAteom("C", "c"))).toBe("A C");
    expect(world.see(bare("A", "a"))).toBe("A");
  });

  it("is not judged at a first look before all owners are known", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    const pods = [makeAteom("A", "a"), bare("A", "thief", "stranger")];
    world.hide("a");
    expect(world.restart(...pods)).toBe("A");
    expect(world.phases).toEqual(["Unknown"]);
    world.hide();
    expect(world.see(...pods)).toBe("A");
    expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
  });

  it("keeps what it was seen with while others are not known", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.hide("a", "c");
    world.see(makeAteom("A", "a"), makeAteom("C", "c"));
    world.hide("c");
    world.see(bare("A", "a"), makeAteom("C", "c"));
    world.hide();
    expect(world.see(bare("A", "a"), makeAteom("C", "c"))).toBe("A C");
    expect(world.see(bare("A", "a"))).toBe("A");
  });

  it("counts when its owner could not be read until it was gone, beside one that has ended", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.hide("late");
    world.see(makeAteom("A", "a"), makeAteom("A", "late"));
    expect(world.see(makeAteom("A", "late"))).toBe("A");
    world.hide();
    expect(world.see(bare("A", "late"))).toBe("A");
    expect(world.see(bare("A", "late"), bare("A", "thief", "stranger"))).toBe("A");
    expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
  });

  it("that could not be read is none of a claim that others stand for", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.hide("thief");
    world.see(makeAteom("A", "a"), bare("A", "thief", "stranger"));
    world.hide();
    world.see(makeAteom("A", "a"), bare("A", "thief", "stranger"));
    expect(world.see(bare("A", "thief", "stranger"))).toBe("none");
  });

  it("counts when its node was left alone while it came and its owner went", () => {
    const world = new World(spec);
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

  it("counts when its pods were not read while it came and its owner went", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    expect(world.miss()).toBe("A");
    expect(world.see(bare("A", "b"))).toBe("A");
  });

  it("counts when pods were grouped by something else while it came and its owner went", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.edit({ ...spec, group: { by: "Namespace" } });
    world.see(makeAteom("A", "a"), makeAteom("A", "b"));
    world.edit(spec);
    world.see(makeAteom("A", "a"), makeAteom("A", "b"));
    expect(world.see(bare("A", "b"))).toBe("A");
  });

  it("keeps no claim whose label does not stand: a kubelet can forge all but some labels", () => {
    const world = new World(spec);
    world.see(makeAteom("A", "a"));
    world.node = editNode(world.node, { labels: { "ate.dev/atelet": null } });
    expect(world.restart(bare("A", "a"))).toBe("none");
    expect(world.phases).toEqual(["Idle"]);
  });

  it("brings nothing to a node where nothing stands", () => {
    const world = new World(spec);
    expect(world.see(bare("A", "a"))).toBe("none");
    expect(world.restart(bare("A", "a"))).toBe("none");
  });
});

it("without claims keeps the label, and no stranger does: neither beside it nor on an idle node", () => {
  const world = new World(WITHOUT_CLAIMS, makeNode({ name: "n1" }));
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
        const world = new World(spec);
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
