/** The stories of footprints: nodes carry label and claims while their pods need the agent, whatever stands there. */
import type { PerturbationStory } from "@berth/testcluster";
import { AGENT_LABEL, CLAIM_PREFIX, FOREIGN_FINALIZER } from "./footprint-oracle.ts";
import { footprintStory } from "./footprint-scene.ts";

/** A label can be that long, and no claim of it. */
const OVERLONG = "x".repeat(63);

/** Short enough for `make test`: a group comes, somebody takes the label off, and the last pod is finished. */
export const footprintNeeded: PerturbationStory = footprintStory(
  "footprint/needed",
  {
    nodes: ["n1"],
    pods: ["a1", "b1"],
    footprints: ["agent"],
    owners: false,
    async prepare({ addNode, addPod, putFootprint }) {
      await addNode("n1");
      await addPod("a1", { node: "n1", group: "a" });
      await putFootprint("agent");
    },
    steps: ({ addPod, finishPod, label, removePod, stands }) => [
      { name: "group-comes", run: () => addPod("b1", { node: "n1", group: "b" }) },
      {
        name: "label-is-torn-off",
        needsSettled: true,
        run: () => label("n1", { [AGENT_LABEL]: null }),
        over: () => stands("n1"),
      },
      { name: "group-goes", run: () => removePod("b1") },
      { name: "pod-is-finished", run: () => finishPod("a1"), over: () => !stands("n1") },
    ],
  },
  { oldestView: 0 },
);

/** Pods of two groups come and go on three nodes; somebody meddles, a node is made anew, and the footprint goes. */
export const footprintClaims: PerturbationStory = footprintStory(
  "footprint/claims",
  {
    nodes: ["n1", "n2", "n3"],
    pods: ["a1", "a2", "b1", "b2", "forger"],
    footprints: ["agent"],
    owners: true,
    async prepare({ addNode, addPod }) {
      await addNode("n1");
      await addNode("n2");
      await addPod("a1", { node: "n1", group: "a", lingers: true });
      // Its node is not there yet.
      await addPod("b2", { node: "n3", group: "b" });
    },
    steps: ({
      addNode,
      addPod,
      annotate,
      dropFootprint,
      endPod,
      hasReadOwners,
      isClaimed,
      label,
      putFootprint,
      remove,
      removePod,
      stands,
    }) => [
      { name: "footprint-comes", run: () => putFootprint("agent"), over: () => hasReadOwners("agent") },
      { name: "node-arrives", run: () => addNode("n3") },
      { name: "group-comes", run: () => addPod("b1", { node: "n1", group: "b" }) },
      {
        name: "label-is-torn-off",
        needsSettled: true,
        run: () => label("n1", { [AGENT_LABEL]: null }),
        over: () => stands("n1"),
      },
      {
        name: "claim-is-forged",
        needsSettled: true,
        run: () => annotate("n2", { [`${CLAIM_PREFIX}a`]: "" }),
        over: () => !isClaimed("n2", "a"),
      },
      { name: "group-is-forged", run: () => addPod("forger", { node: "n2", group: OVERLONG }) },
      // It moves.
      {
        name: "pod-moves",
        async run() {
          await addPod("a2", { node: "n2", group: "a" });
          await removePod("b1");
        },
      },
      { name: "pod-ends", run: () => removePod("a1") },
      { name: "node-goes", run: () => remove("n3") },
      { name: "node-returns", run: () => addNode("n3") },
      { name: "pod-is-gone", run: () => endPod("a1") },
      { name: "footprint-goes", needsSettled: true, run: () => dropFootprint("agent") },
    ],
  },
  { oldestView: 1 },
);

/** Owners are deleted while their pods are there: they wait for these, and for nothing else. */
export const footprintHold: PerturbationStory = footprintStory(
  "footprint/hold",
  {
    nodes: ["n1", "n2"],
    pods: ["p1", "p2"],
    footprints: ["agent"],
    pools: ["pool", "idle"],
    owners: true,
    async prepare({ addNode, addPod, addPool, putFootprint, uidOf }) {
      await addNode("n1");
      await addNode("n2");
      await addPool("pool");
      await addPod("p1", { node: "n1", group: uidOf("pool") });
      await putFootprint("agent");
    },
    steps: ({ addPod, addPool, endPod, holds, removePod, removePool, setFinalizers, uidOf }) => [
      { name: "owner-comes", run: () => addPool("idle") },
      {
        name: "finalizer-is-torn-off",
        needsSettled: true,
        run: () => setFinalizers("pool", [FOREIGN_FINALIZER]),
        over: () => holds("pool"),
      },
      { name: "pod-comes", run: () => addPod("p2", { node: "n2", group: uidOf("pool"), lingers: true }) },
      { name: "owner-is-deleted", needsSettled: true, run: () => removePool("pool") },
      { name: "pod-goes", run: () => removePod("p1") },
      { name: "idle-owner-is-deleted", needsSettled: true, run: () => removePool("idle") },
      { name: "pod-ends", run: () => removePod("p2") },
      { name: "pod-is-gone", run: () => endPod("p2"), over: () => !holds("pool") },
      { name: "owner-is-gone", needsSettled: true, run: () => setFinalizers("pool", []) },
    ],
  },
  { oldestView: 1 },
);

/**
 * Owners whose deletion ends in other ways: one leaves what it owns behind, and one has a pod that does not end, until it
 * has waited for long enough.
 */
export const footprintHoldEnds: PerturbationStory = footprintStory(
  "footprint/hold-ends",
  {
    nodes: ["n1", "n2"],
    pods: ["p1", "p2"],
    footprints: ["agent"],
    pools: ["left", "stuck"],
    sets: ["s1", "s2"],
    owners: "DeleteOwned",
    late: "time-passes",
    async prepare({ addNode, addPod, addPool, addSet, putFootprint, uidOf }) {
      await addNode("n1");
      await addNode("n2");
      await addPool("left");
      await addPool("stuck");
      await addSet("s1", "left");
      await addSet("s2", "stuck");
      await addPod("p1", { node: "n1", group: uidOf("left"), set: "s1" });
      await addPod("p2", { node: "n2", group: uidOf("stuck"), set: "s2", lingers: true });
      await putFootprint("agent");
    },
    steps: ({ endPod, holds, orphanPool, orphanSet, passTime, removePod, removePool }) => [
      { name: "owner-is-deleted-alone", needsSettled: true, run: () => orphanPool("left") },
      { name: "set-is-orphaned", needsSettled: true, run: () => orphanSet("s1", "left") },
      { name: "owner-is-deleted", needsSettled: true, run: () => removePool("stuck") },
      { name: "pod-is-stuck", run: () => removePod("p2") },
      {
        name: "time-passes",
        needsSettled: true,
        run: async () => passTime(),
        over: () => !holds("stuck"),
      },
      { name: "pod-is-gone", run: () => endPod("p2") },
    ],
  },
  { oldestView: 1 },
);
