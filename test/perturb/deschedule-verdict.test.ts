/** The oracle of the descheduling stories finds each thing that it is there for, and nothing in what is right. */
import { nodes, type Pod, pods } from "@berth/kube";
import { aNode, aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { forbiddenOfDescheduling } from "./deschedule-verdict.ts";
import type { StoryWrite } from "./deschedule-writes.ts";
import { WrittenHistory } from "./written-history.ts";

const LABEL = "example.com/camera";
const LAST = "rest";

class Told extends WrittenHistory {
  readonly #writes: StoryWrite[] = [];

  node(name: string, isRight: boolean): this {
    const object = isRight ? aNode(name).labelled({ [LABEL]: "true" }) : aNode(name);
    return this.note(nodes, { name, object: object.build(), by: "story" });
  }

  /** Ready. @param owner its uid. */
  pod(name: string, node: string, owner = "a"): this {
    return this.#pod(aPod(name).on(node).ready(), owner);
  }

  unready(name: string, node: string): this {
    return this.#pod(aPod(name).on(node).notReady(), "a");
  }

  /** @param lingers its deletion begins, and is not over. */
  evicted(name: string, lingers = false): this {
    const last = this.entries.findLast((entry) => entry.name === name)?.object as Pod;
    const metadata = { ...last.metadata, ...(lingers && { deletionTimestamp: "2026-01-01T00:00:00Z" }) };
    const gone = lingers ? {} : ({ gone: "DELETED" } as const);
    return this.note(pods, { name, object: { ...last, metadata }, by: "controller", ...gone });
  }

  asks(write: Partial<StoryWrite>): this {
    const { step } = this;
    const usual = { verb: "evict", resource: "pods", name: "a1", uid: "uid-a1", life: 1 } as const;
    this.#writes.push({ ...usual, step, answer: "accepted", ...write });
    return this;
  }

  get problems(): string {
    return forbiddenOfDescheduling(this.entries, {
      steps: [...this.steps.filter((step) => step !== LAST), LAST],
      label: LABEL,
      writes: this.#writes,
      budgeted: { owner: "b", until: "allowed" },
    }).join("\n");
  }

  #pod(builder: PodBuilder, owner: string): this {
    const of = builder.ownedBy("ReplicaSet", owner, owner).selecting({ [LABEL]: "true" });
    const { metadata, ...rest } = of.build();
    const { name = "" } = metadata ?? {};
    const object: Pod = { ...rest, metadata: { ...metadata, uid: `uid-${name}` } };
    return this.note(pods, { name, object, by: "story" });
  }
}

/** Pods of one owner on n1, which then loses its label. */
const lost = (...names: readonly string[]): Told => {
  const told = new Told().node("n1", true).node("n2", true);
  for (const name of names) told.pod(name, "n1");
  return told.next("leaves").node("n1", false);
};

type Case = readonly [string, Told, RegExp];
const RIGHT = /^$/;
const FOR_NOTHING = /evicted from a node that it fits/;
const AT_ONCE = /a2 was evicted though nothing Ready had replaced a1/;

describe("an eviction", () => {
  const onRight = new Told().node("n1", true).pod("a1", "n1");
  const stale = lost("a1").node("n1", true).next("one").node("n2", true).next("two").node("n2", true);
  it.each<Case>([
    ["is right for a pod on a wrong node", lost("a1").evicted("a1"), RIGHT],
    ["is wrong for a pod that fits", onRight.evicted("a1"), FOR_NOTHING],
    ["is wrong for a pod whose node is gone", new Told().pod("a1", "n1").evicted("a1"), FOR_NOTHING],
    ["may rest on what has just been so", lost("a1").node("n1", true).evicted("a1"), RIGHT],
    ["does not rest on what was so long ago", stale.evicted("a1"), FOR_NOTHING],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("evictions of one owner", () => {
  const one = (): Told => lost("a1", "a2").evicted("a1");
  const others = lost("a1").pod("c1", "n1", "c").evicted("a1").evicted("c1");
  it.each<Case>([
    ["follow a Ready replacement", one().pod("a3", "n2").evicted("a2"), RIGHT],
    ["do not come at once", one().evicted("a2"), AT_ONCE],
    ["do not come while the first goes on", lost("a1", "a2").evicted("a1", true).evicted("a2"), AT_ONCE],
    ["do not follow a replacement that is not Ready", one().unready("a3", "n2").evicted("a2"), AT_ONCE],
    ["do not follow a pod that was Ready before", one().pod("a2", "n1").evicted("a2"), AT_ONCE],
    ["do not wait for those of another", others, RIGHT],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("a budget", () => {
  const budgeted = (): Told => new Told().node("n1", true).pod("b1", "n1", "b").node("n1", false);
  it.each<Case>([
    ["allows nothing at first", budgeted().evicted("b1").next("allowed"), /before its budget allowed it/],
    ["allows an eviction then", budgeted().next("allowed").evicted("b1"), RIGHT],
    ["is that of its owner", lost("a1").evicted("a1").next("allowed"), RIGHT],
  ])("%s", (_, told, expected) => expect(told.node("n2", true).problems).toMatch(expected));
});

describe("a write", () => {
  const told = (): Told => lost("a1");
  const rest = (): Told => told().evicted("a1").next(LAST).node("n2", true);
  it.each<Case>([
    ["is an eviction with the uid", told().asks({}), RIGHT],
    ["is no eviction of any pod of that name", told().asks({ uid: undefined }), /whatever its uid/],
    ["never deletes a pod", told().asks({ verb: "delete" }), /in another way than by an eviction: delete/],
    ["evicts once", told().asks({}).asks({}), /evicted twice/],
    ["may be repeated when it was refused", told().asks({ answer: "refused" }).asks({}), RIGHT],
    ["does not come at rest", rest().asks({}), /though nothing had happened: evict pods/],
    ["may come at rest after a restart", rest().asks({ life: 2 }), RIGHT],
    ["may bring a count up to date", rest().asks({ verb: "patch", resource: "deschedulepolicies" }), RIGHT],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("in the end", () => {
  const ended = (told: Told): Told => told.next(LAST).node("n2", true);
  it.each<Case>([
    ["no pod is on a wrong node", ended(lost("a1")), /a1 is on a wrong node in the end/],
    ["a pod that has gone is on none", ended(lost("a1").evicted("a1")), RIGHT],
    ["a story that was broken off has no end", lost("a1"), RIGHT],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});
