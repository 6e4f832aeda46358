/** The stories of a policy that moves pods: a device leaves a node and returns, and a budget allows nothing for a while. */
import type { PerturbationStory } from "@berth/testcluster";
import { descheduleStory } from "./deschedule-scene.ts";

/**
 * The replicas of one owner move one by one, until the device returns before the last one. Then the pod of another owner
 * has to go, and its budget allows that only later. The policy does not wait, so Berth has to know by itself when it may.
 */
export const descheduleMoves: PerturbationStory = descheduleStory(
  "deschedule/moves",
  {
    nodes: ["n1", "n2", "n3"],
    pods: ["a1", "a2", "a3", "a4", "a5", "b1", "b2"],
    budgeted: { owner: "b", until: "budget-allows" },
    // After each start Berth evicts nothing for half a second of real time.
    pace: 20,
    async prepare({ addBudget, addNode, addPod, addPolicy, ready }) {
      for (const node of ["n1", "n2", "n3"]) await addNode(node);
      for (const pod of ["a1", "a2", "a3"]) await addPod(pod, { owner: "a", node: "n1" });
      await addPod("b1", { owner: "b", node: "n3", lingers: true });
      for (const pod of ["a1", "a2", "a3", "b1"]) await ready(pod);
      await addBudget("b");
      await addPolicy({ for: "0s" });
    },
    steps: ({ addPod, allow, annotate, endPod, isRefused, label, ready, standing }) => [
      { name: "device-leaves", run: () => label("n1", false), over: () => standing("a") === 2 },
      { name: "replacement-comes", needsSettled: true, run: () => addPod("a4", { owner: "a", node: "n2" }) },
      { name: "replacement-is-ready", run: () => ready("a4"), over: () => standing("a") === 2 },
      {
        name: "another-replacement-comes",
        needsSettled: true,
        run: () => addPod("a5", { owner: "a", node: "n2" }),
      },
      { name: "device-returns", run: () => label("n1", true) },
      // Seen together with the return, the last pod could rightly go before it.
      { name: "another-is-ready", needsSettled: true, run: () => ready("a5") },
      { name: "other-device-leaves", run: () => label("n3", false), over: () => isRefused("b1") },
      { name: "budget-allows", run: () => allow("b"), over: () => standing("b") === 0 },
      { name: "pod-ends", needsSettled: true, run: () => endPod("b1") },
      {
        name: "its-replacement-comes",
        needsSettled: true,
        async run() {
          await addPod("b2", { owner: "b", node: "n1" });
          await ready("b2");
        },
      },
      { name: "node-is-annotated", needsSettled: true, run: () => annotate("n2") },
    ],
  },
  { oldestView: 0 },
);

/**
 * Two replicas move. What Berth sees after a restart may be old: `for` is what it has to bridge that, because nothing else
 * can tell which pods of an owner are gone already.
 */
export const descheduleOlder: PerturbationStory = descheduleStory(
  "deschedule/older",
  {
    nodes: ["n1", "n2"],
    pods: ["a1", "a2", "a3", "a4"],
    pace: 50,
    async prepare({ addNode, addPod, addPolicy, ready }) {
      for (const node of ["n1", "n2"]) await addNode(node);
      for (const pod of ["a1", "a2"]) await addPod(pod, { owner: "a", node: "n1" });
      for (const pod of ["a1", "a2"]) await ready(pod);
      await addPolicy({ for: "2m" });
    },
    steps: ({ addPod, annotate, label, ready, standing }) => [
      { name: "device-leaves", run: () => label("n1", false), over: () => standing("a") === 1 },
      { name: "replacement-comes", needsSettled: true, run: () => addPod("a3", { owner: "a", node: "n2" }) },
      { name: "replacement-is-ready", run: () => ready("a3"), over: () => standing("a") === 1 },
      {
        name: "another-replacement-comes",
        needsSettled: true,
        async run() {
          await addPod("a4", { owner: "a", node: "n2" });
          await ready("a4");
        },
      },
      { name: "node-is-annotated", needsSettled: true, run: () => annotate("n2") },
    ],
  },
  { oldestView: 1 },
);
