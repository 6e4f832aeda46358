/** The story of WorkerPools: agent-substrate with its pull request 134, served by the documents of the example. */
import type { PerturbationStory } from "@berth/testcluster";
import { poolStory } from "./footprint-pools-scene.ts";

/** One pool grows, shrinks and is deleted with all that is its own; another one leaves its Deployment behind. */
export const footprintPools: PerturbationStory = poolStory(
  "footprint/pools",
  {
    nodes: ["n1", "n2"],
    pools: ["pool", "kept"],
    pods: ["p1", "p2", "k1"],
    async prepare({ addNode }) {
      await addNode("n1");
      await addNode("n2");
    },
    steps: ({
      addPool,
      collectSet,
      editDeployment,
      orphan,
      orphanPool,
      removePod,
      removePool,
      rollOut,
      scalePool,
    }) => [
      {
        name: "pools-come",
        async run() {
          await addPool("pool", 1);
          await addPool("kept", 1);
        },
      },
      {
        name: "pods-come",
        needsSettled: true,
        async run() {
          await rollOut("pool", { pods: { p1: "n1" }, replicas: 1 });
          await rollOut("kept", { pods: { k1: "n1" }, replicas: 1 });
        },
      },
      { name: "pool-grows", run: () => scalePool("pool", 2) },
      {
        name: "pod-is-made",
        needsSettled: true,
        run: () => rollOut("pool", { pods: { p2: "n2" }, replicas: 2 }),
      },
      {
        name: "deployment-is-scaled",
        needsSettled: true,
        run: () => editDeployment("pool", { replicas: 5 }),
      },
      { name: "pool-shrinks", needsSettled: true, run: () => scalePool("pool", 1) },
      {
        name: "pod-ends",
        needsSettled: true,
        async run() {
          await removePod("p1");
          await rollOut("pool", { replicas: 1 });
        },
      },
      { name: "pool-is-deleted", needsSettled: true, run: () => removePool("pool") },
      { name: "set-is-collected", needsSettled: true, run: () => collectSet("pool") },
      { name: "pod-is-collected", run: () => removePod("p2") },
      { name: "kept-is-deleted", needsSettled: true, run: () => orphanPool("kept") },
      { name: "kept-is-orphaned", needsSettled: true, run: () => orphan("kept") },
      { name: "orphan-ends", needsSettled: true, run: () => removePod("k1") },
    ],
  },
  { oldestView: 1 },
);
