/** The oracle of the story of pools finds each thing that it is there for, and nothing in what is right. */
import { pods } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { ORPHAN } from "./footprint-oracle.ts";
import {
  type DeploymentState,
  deploymentOf,
  type PoolState,
  poolOf,
  PoolHistory as Told,
} from "./footprint-pools-history.ts";
import { POOL_FINALIZER, unsettledPools } from "./footprint-pools-oracle.ts";

/** A pool with its Deployment, a pod, and a node with its claim. */
function told(): Told {
  const come = new Told().node(false, "story").next("come").pool({ finalizers: [] }, "story").pool({});
  const pods = come.deployment({}).next("pods").set().pod().deployment({ counted: 1 }, "story");
  return pods.node(true).pool({ counted: 1 });
}

/** Two steps on, so that nothing that was before can be taken for late. */
function later(before: Told): Told {
  const other = { name: "p0", object: { metadata: { name: "p0" } }, by: "story" } as const;
  const at = before.entries.length;
  const came = before.next(`${at}-one`).note(pods, other);
  return came.next(`${at}-two`).note(pods, { ...other, gone: "DELETED" });
}

const ENDED: PoolState = { counted: 1, isDeleted: true };
const HELD_TWICE = [POOL_FINALIZER, ORPHAN];
const RIGHT = "nothing is wrong";
type Case = readonly [string, Told, string];

/** Its deletion has begun; with the finalizer `orphan`, what it has is to stay. */
const deleted = (state: PoolState = {}): Told =>
  later(told())
    .next("delete")
    .pool({ ...ENDED, ...state }, "story");
const orphaning = (): Told => deleted({ finalizers: HELD_TWICE });
/** Two steps on without a Deployment. */
const ending = (): Told =>
  later(deleted().deployment({ counted: 1 }, "controller", "DELETED").next("collect").set("DELETED"));
const goes = (of: Told): Told => of.pool(ENDED, "story", "DELETED");
const removed = (of: Told): Told => of.deployment({ counted: 1 }, "controller", "DELETED");

describe("a pool", () => {
  const orphaned = (): Told =>
    later(later(orphaning()).next("orphan").deployment({ counted: 1, owner: null }, "story"));
  const tooLate = new Told().pool({ finalizers: [], isDeleted: true }, "story").pool({ isDeleted: true });

  it.each<Case>([
    ["is right from its Deployment to its end", goes(ending().next("end").pod("DELETED").node(false)), RIGHT],
    ["is not let go while it has pods", goes(ending()), "though there is p1"],
    ["is not let go while it has a Deployment", goes(deleted()), "though there is pool-deployment"],
    ["is not let go while it lives", told().pool({ counted: 1, finalizers: [] }), "though it lives"],
    ["is not let go by Berth", deleted().pool({ ...ENDED, finalizers: [] }), "though there is"],
    ["is not held once its deletion has begun", tooLate, "being deleted"],
    ["is not written for nothing", told().pool({ counted: 1 }), "for nothing"],
    ["counts what it has", told().pool({ counted: 3 }), "never had"],
    ["is not annotated", told().pool({ counted: 1, finalizers: [], note: "x" }), "foreign things"],
    ["is not counted at its end", ending().pool({ ...ENDED, counted: 0 }), "though it is being deleted"],
    ["is right while it is orphaned", later(orphaning()), RIGHT],
    ["that was orphaned goes without what it had", goes(orphaned().pool(ENDED, "story")), RIGHT],
    ["is kept until it is orphaned", goes(later(orphaning())), "the garbage collector"],
  ])("%s", (_, { problems }, expected) => expect(problems || RIGHT).toContain(expected));
});

describe("a Deployment", () => {
  const edited = told().deployment({ replicas: 5, counted: 1 }, "story").deployment({ counted: 1 });
  const again = later(told()).deployment({}, "story", "DELETED").deployment({});

  it.each<Case>([
    ["is made once for a pool that lives", again, "made twice"],
    ["is made as the pool wants it", told().deployment({ image: "other" }), "as no pool wants it"],
    ["is not made for a pool that ends", ending().deployment({}), "as no pool wants it"],
    ["is written when it is not as the pool wants it", edited, RIGHT],
    ["is not written at rest", told().deployment({ counted: 1 }), "at rest"],
    ["keeps what others have of it", told().deployment({ counted: 1, note: "x" }), "foreign things"],
    ["is removed with its pool", removed(deleted()), RIGHT],
    ["is not removed when the pool lives", removed(told()), "no pool of it"],
    ["is not removed when the pool is to leave it", removed(orphaning()), "no pool of it"],
  ])("%s", (_, { problems }, expected) => expect(problems || RIGHT).toContain(expected));
});

describe("what is on nodes", () => {
  const gone = (): Told => told().next("end").pod("DELETED");
  it.each<Case>([
    ["is there for a pod", new Told().node(false, "story").node(true), "for no pod"],
    ["stays while pods need it", later(told()).node(false), "though pods need it"],
    ["does not stay without any", gone(), "in the end, and no pod for it"],
    ["does not come and go while nobody does anything", gone().node(false).node(true), "flapped"],
  ])("%s", (_, { problems }, expected) => expect(problems || RIGHT).toContain(expected));
});

it("what is not Berth's must be made, written and removed by others alone", () => {
  const pod = { name: "p1", object: { metadata: { name: "p1" } }, by: "controller" } as const;
  expect(told().note(pods, pod).problems).toContain("was written by the controller");
  expect(told().note(pods, { ...pod, gone: "DELETED" }).problems).toContain("was DELETED by the controller");
});

it.each<[string, PoolState, DeploymentState | undefined, string]>([
  ["a Deployment as its pool wants it", { replicas: 2 }, { replicas: 2 }, RIGHT],
  ["a Deployment as its pool wants it", { replicas: 2 }, {}, "the Deployment of pool is"],
  ["a Deployment", {}, undefined, "the Deployment of pool is"],
  ["a pool that is held", { finalizers: [] }, {}, "is not held"],
  ["a pool that is counted", {}, { counted: 1 }, "miscounts"],
  ["nothing of a pool that is deleted", { isDeleted: true }, undefined, "waits for nothing"],
  ["nothing of a pool that is deleted", { isDeleted: true }, {}, "is left"],
  ["what a pool is to leave", { isDeleted: true, finalizers: HELD_TWICE }, {}, RIGHT],
])("what stands in the end is %s: %j, %j", (_what, pool, deployment, expected) => {
  const deployments = deployment ? [deploymentOf(deployment)] : [];
  const view = { nodes: [], pods: [], sets: [], pools: [poolOf(pool)], deployments };
  expect(unsettledPools(view).join("\n") || RIGHT).toContain(expected);
});
