/** The stories of the capability `labels`: rules in a folder. */
import { nodes } from "@berth/kube";
import type { PerturbationStory, Step } from "@berth/testcluster";
import { type FolderActor, type FolderPlot, setUpFolderScene } from "./folder-scene.ts";

const USB = "usb.present";
const PCI = "pci.present";
const TPU = "accel/tpu";
/** Follows from the one above. */
const POOL = "pool/ml";

function folderStory(name: string, plot: FolderPlot): PerturbationStory {
  return { name, resources: [nodes], setUp: (stage) => setUpFolderScene(stage, plot) };
}

/** Short enough for `make test`: each kind of change once. */
export const labelsFolder: PerturbationStory = folderStory("labels/folder", {
  nodes: ["n1"],
  async prepare({ add, rules }) {
    await rules.write(TPU, USB);
    await rules.write(POOL, TPU);
    await add("n1", { team: "red" }, { "example.com/note": "kept" });
  },
  steps: ({ add, label, remove, rules }) => [
    { name: "device-comes", run: () => label("n1", { [USB]: "true", team: "blue" }) },
    { name: "device-goes", run: () => label("n1", { [USB]: null }) },
    // Had Berth not taken its label away by now, this would be somebody meddling with it.
    { name: "others-set-it", needsSettled: true, run: () => label("n1", { [TPU]: "manual" }) },
    { name: "device-returns", run: () => label("n1", { [USB]: "true" }) },
    { name: "rule-changes", run: () => rules.write(POOL, PCI) },
    {
      name: "node-is-replaced",
      async run() {
        await remove("n1");
        await add("n1", { [PCI]: "true" }, { "example.com/note": "another" });
      },
    },
  ],
});

/**
 * Berth gives a label up, and a user sets it the moment after: then it is the user's, whatever a Berth that was just
 * started still believes.
 */
export const labelsReleased: PerturbationStory = folderStory("labels/released", {
  nodes: ["n1"],
  async prepare({ add, rules }) {
    await rules.write(TPU, USB);
    await add("n1", { [USB]: "true" });
  },
  steps: ({ annotate, label }) => [
    { name: "device-goes", needsSettled: true, run: () => label("n1", { [USB]: null }) },
    { name: "others-note", needsSettled: true, run: () => annotate("n1", { "example.com/note": "new" }) },
    { name: "others-set-it", run: () => label("n1", { [TPU]: "manual" }) },
  ],
});

/** Two nodes, and everything that people do to labels, records and rules. */
export const labelsFolderLong: PerturbationStory = folderStory("labels/folder-long", {
  nodes: ["n1", "n2"],
  async prepare({ add, rules }) {
    await rules.write(TPU, USB, PCI);
    await rules.write(POOL, TPU);
    await add("n1", { team: "red" }, { "example.com/note": "kept" });
    await add("n2", { [USB]: "true", [TPU]: "true" });
  },
  steps: longSteps,
});

function longSteps({ add, annotate, label, remove, rules }: FolderActor): readonly Step[] {
  return [
    { name: "both-devices-come", run: () => label("n1", { [USB]: "true", [PCI]: "1" }) },
    { name: "one-goes", run: () => label("n1", { [USB]: null }) },
    { name: "value-is-meddled-with", needsSettled: true, run: () => label("n1", { [TPU]: "false" }) },
    { name: "label-is-torn-off", needsSettled: true, run: () => label("n1", { [POOL]: null }) },
    { name: "adopted-device-goes", run: () => label("n2", { [USB]: null }) },
    { name: "rule-is-new", run: () => rules.write("rack/cooled", POOL, "team") },
    { name: "rule-goes", run: () => rules.remove(POOL) },
    // Overtaking a file would leave no trace in the history: a label taken away by the one before would seem to flap.
    { name: "rule-returns", needsSettled: true, run: () => rules.write(POOL, TPU) },
    { name: "node-goes", run: () => remove("n2") },
    { name: "node-returns", run: () => add("n2", { [PCI]: "1" }, { "example.com/note": "another" }) },
    { name: "others-note", run: () => annotate("n2", { "example.com/note": "changed" }) },
    { name: "last-device-goes", run: () => label("n1", { [PCI]: null, team: null }) },
  ];
}
