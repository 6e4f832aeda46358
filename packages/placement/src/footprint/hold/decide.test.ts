import { describe, expect, it } from "vitest";
import { reasons } from "../../api/reasons.ts";
import type { HeldOwner } from "../footprint-observations.ts";
import { footprintOf } from "../testing/footprints.ts";
import { makePod } from "../testing/pods.ts";
import { decideHold, type HoldView, LOOK_MS, type OwnedObject, STUCK_AFTER_MS } from "./decide.ts";

const NOW = Date.parse("2026-01-01T00:10:00Z");
const DELETED_AT = "2026-01-01T00:00:00Z";
const OURS = "ate.dev/release-node-claims";
const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const apps = { group: "apps", version: "v1", resource: "deployments" };

const held = footprintOf({ preset: "agent-substrate/pr-134" });
const withHold = (hold: object) =>
  footprintOf({
    preset: "agent-substrate/pr-134",
    hold: { resource, finalizer: OURS, ownedResources: [apps], ...hold },
  });

function viewOf({
  finalizers = [OURS],
  isDeleted = true,
  footprint = held,
  ...more
}: Partial<HoldView> & {
  finalizers?: readonly string[];
  isDeleted?: boolean;
  footprint?: typeof held | null;
} = {}): HoldView {
  const owner: HeldOwner = {
    resource,
    namespace: "ns",
    name: "pool",
    uid: "u",
    resourceVersion: "7",
    finalizers,
    ...(isDeleted && { deletionTimestamp: DELETED_AT }),
  };
  return {
    owner,
    guard: { resource, finalizer: OURS, footprint: footprint ?? undefined },
    owned: [],
    pods: [],
    arePodsWatched: true,
    now: NOW,
    ...more,
  };
}

function anOwned(name: string, more: Partial<OwnedObject> = {}): OwnedObject {
  return {
    resource: apps,
    namespace: "ns",
    name,
    uid: `uid-${name}`,
    resourceVersion: "1",
    isDeleting: false,
    ...more,
  };
}

const alive = { isDeleted: false, owned: undefined, pods: undefined };
const ending = (name: string, at: string) => {
  const pod = makePod(name);
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp: at } };
};

describe("an owner with a hold", () => {
  it.each<[string, Partial<Parameters<typeof viewOf>[0] & object>, object]>([
    [
      "alive without the finalizer gets it",
      { ...alive, finalizers: ["x"] },
      { finalizer: "Add", reason: reasons.OwnerGuarded },
    ],
    [
      "alive without it does not get it before its pods are watched",
      { ...alive, finalizers: ["x"], arePodsWatched: false },
      { deletes: [] },
    ],
    ["alive with it is left alone", alive, { deletes: [] }],
    ["deleted without it is left alone", { finalizers: ["x"] }, { deletes: [] }],
    [
      "of a hold that is no more loses it, alive",
      { ...alive, footprint: null },
      { finalizer: "Remove", reason: reasons.HoldDropped },
    ],
    [
      "of a hold that is no more loses it, deleted",
      { footprint: null, owned: [anOwned("d")] },
      { finalizer: "Remove" },
    ],
    [
      "of a hold that is no more and without it is left alone",
      { footprint: null, finalizers: [] },
      { deletes: [] },
    ],
    ["F-E13 deleted, with nothing left, goes", {}, { finalizer: "Remove", reason: reasons.OwnerReleased }],
    [
      "deleted waits while it is not known what it owns",
      { owned: undefined },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    [
      "F-E1 deleted waits while its pods are not known, and nothing of it is deleted before",
      { pods: undefined, owned: [anOwned("d")] },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    ["F-E1 deleted has what it owns deleted", { owned: [anOwned("d")] }, { deletes: [anOwned("d")] }],
    [
      "what is being deleted is waited for",
      { owned: [anOwned("d", { isDeleting: true })] },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    [
      "with onDelete Wait nothing is deleted",
      { owned: [anOwned("d")], footprint: withHold({ onDelete: "Wait" }) },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    [
      "in the foreground nothing is deleted: the garbage collector does so",
      { owned: [anOwned("d")], finalizers: ["foregroundDeletion", OURS] },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    [
      "about to orphan waits, and nothing is deleted",
      { owned: [anOwned("d")], finalizers: [OURS, "orphan"] },
      { reason: reasons.OwnerHeld, deletes: [] },
    ],
    [
      "about to orphan waits although nothing is seen",
      { finalizers: [OURS, "orphan"] },
      { reason: reasons.OwnerHeld },
    ],
    [
      "F-B11 beyond its timeout goes",
      { pods: [makePod("a")], footprint: withHold({ timeout: "10m" }) },
      { finalizer: "Remove", reason: reasons.HoldTimedOut, deletes: [] },
    ],
    [
      "before its timeout waits for that moment",
      { pods: [makePod("a")], footprint: withHold({ timeout: "604s" }) },
      { reason: reasons.OwnerHeld, recheckAfterMs: 4_000 },
    ],
  ])("%s", (_name, view, decision) => {
    const { held: _, ...made } = decideHold(viewOf(view));
    expect({ finalizer: made.finalizer, ...made }).toMatchObject({ finalizer: undefined, ...decision });
  });

  it("names its first five pods and their nodes, in order, and is looked at again a while later", () => {
    const pods = ["f", "b", "a", "e", "d", "c"].map((name) =>
      makePod(name, { node: name < "d" ? "n1" : "n2" }),
    );
    const { held: state, recheckAfterMs } = decideHold(viewOf({ pods }));
    expect(state).toMatchObject({
      since: DELETED_AT,
      pods: ["default/a", "default/b", "default/c", "default/d", "default/e"],
      nodes: ["n1", "n2"],
      isStuck: false,
    });
    expect(state?.message).toMatch(/^6 pods: default\/a on n1; .*; and 1 more$/);
    expect(recheckAfterMs).toBe(LOOK_MS);
  });

  it("F-E12 tells of a pod that should have ended, and looks again", () => {
    const late = ending("late", new Date(NOW - STUCK_AFTER_MS).toISOString());
    const soon = ending("soon", new Date(NOW).toISOString());
    const { held: state, recheckAfterMs } = decideHold(viewOf({ pods: [soon, late] }));
    expect(state?.isStuck).toBe(true);
    expect(state?.message).toContain("default/late on n1, past its grace period");
    expect(recheckAfterMs).toBe(LOOK_MS);
    expect(decideHold(viewOf({ pods: [soon] })).held?.isStuck).toBe(false);
  });

  it("F-B11 tells at once of a pod that ends on a node that is silent", () => {
    const pods = [ending("a", new Date(NOW + 1).toISOString())];
    const { held: state } = decideHold(
      viewOf({ pods, lossOf: (name) => (name === "n1" ? "silent" : undefined) }),
    );
    expect(state).toMatchObject({ isStuck: true, nodes: ["n1"] });
    expect(state?.message).toContain("whose node is silent");
  });

  it("I-19 waits for no pod that ends on a node that was deleted, and for one that was not told to end", () => {
    const lossOf = (name: string): "gone" | undefined => (name === "n1" ? "gone" : undefined);
    const pods = [ending("a", new Date(NOW + 1).toISOString())];
    expect(decideHold(viewOf({ pods, lossOf }))).toMatchObject({
      finalizer: "Remove",
      reason: "OwnerReleased",
    });
    const running = [makePod("a")];
    expect(decideHold(viewOf({ pods: running, lossOf })).finalizer).toBeUndefined();
  });
});
