/** The stories of the capability `labels`: rules in `LabelRule` objects. */
import { describeKeyChange, type HistoryEntry, keyChanges, type PerturbationStory } from "@berth/testcluster";
import type { StoryRule } from "./rule-oracle.ts";
import { ruleStory } from "./rule-scene.ts";

const USB = "usb.present";
const PCI = "pci.present";
const TPU = "accel/tpu";
const RACK = "rack/name";
const POOL = "pool/ml";

/** Longer than any telling lasts, by the clock of Berth. */
const FOREVER_SECONDS = 3600;

const tpu: StoryRule = {
  inputs: [USB],
  outputs: { [TPU]: "v1", [RACK]: "ours" },
  removalDelaySeconds: FOREVER_SECONDS,
};
const edited: StoryRule = {
  inputs: [USB, PCI],
  outputs: { [TPU]: "v2", [RACK]: "ours" },
  removalDelaySeconds: 1,
};
/** Follows from the one above. */
const pool: StoryRule = { inputs: [TPU], outputs: { [POOL]: "yes" }, removalDelaySeconds: 1 };

/** Short enough for `make test`: rules come, change and go; an input goes and comes back in time, and not in time. */
export const labelsRules: PerturbationStory = ruleStory("labels/rules", {
  nodes: ["n1"],
  rules: ["tpu", "pool"],
  prepare: ({ add }) => add("n1", { [USB]: "1", [RACK]: "theirs", team: "red" }),
  steps: ({ drop, label, labelOf, put }) => [
    {
      name: "rules-come",
      async run() {
        // This way round both labels come in one write: how many there are does not depend on who is faster.
        await put("pool", pool);
        await put("tpu", tpu);
      },
      over: () => labelOf("n1", POOL) === "yes",
    },
    // Of a device that went before its rule was seen nothing is left to hold: its labels have to be there first.
    { name: "device-goes", needsSettled: true, run: () => label("n1", { [USB]: null }) },
    { name: "device-returns", run: () => label("n1", { [USB]: "2" }) },
    { name: "rule-is-edited", run: () => put("tpu", edited), over: () => labelOf("n1", TPU) === "v2" },
    {
      name: "device-goes-again",
      run: () => label("n1", { [USB]: null }),
      over: () => labelOf("n1", TPU) === undefined && labelOf("n1", POOL) === undefined,
    },
    { name: "another-device-comes", run: () => label("n1", { [PCI]: "1" }) },
    { name: "rule-goes", run: () => drop("tpu"), over: () => labelOf("n1", POOL) === undefined },
  ],
});

const EIGHT = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];
const FIVE = EIGHT.slice(0, 5);

/** So long that no restart begins to remove before it has counted all nodes: each begins the delay anew. */
const careful: StoryRule = {
  inputs: [USB],
  outputs: { [TPU]: "v1" },
  removalDelaySeconds: 30,
  breaker: { percent: 10, nodes: 2 },
};
const onTrial: StoryRule = { ...careful, outputs: { [TPU]: "v2" }, dryRun: true, verdict: "DryRun" };
/** Three of nine nodes, the sentinel among them, are more than it may change unasked. A restart counts them again. */
const big: StoryRule = { ...careful, outputs: { [TPU]: "v2" }, confirmAbovePercent: 20 };
const waiting: StoryRule = { ...big, verdict: "ConfirmationRequired" };
const cyclic: StoryRule = { ...big, inputs: [USB, TPU], verdict: "CyclicRule" };

/** What keeps a mistake from spreading: breaker, trial, confirmation, and a rule that depends on itself. */
export const labelsSafety: PerturbationStory = ruleStory(
  "labels/safety",
  {
    nodes: EIGHT,
    rules: ["tpu"],
    async prepare({ add, put }) {
      for (const node of EIGHT) await add(node, { [USB]: "1" });
      await put("tpu", careful);
    },
    steps: ({ confirm, label, labelOf, put, says }) => [
      {
        name: "five-devices-go",
        // As of one device: a node that loses it before it has its label has nothing to lose.
        needsSettled: true,
        run: async () => void (await Promise.all(FIVE.map((node) => label(node, { [USB]: null })))),
        over: () => says("tpu", "RemovalsFrozen", "RemovalsFrozen"),
      },
      {
        name: "that-is-confirmed",
        needsSettled: true,
        run: () => confirm("tpu", careful),
        over: () => FIVE.every((node) => labelOf(node, TPU) === undefined),
      },
      { name: "edit-is-tried", needsSettled: true, run: () => put("tpu", onTrial) },
      {
        name: "edit-asks",
        run: () => put("tpu", waiting),
        over: () => says("tpu", "Ready", "ConfirmationRequired"),
      },
      {
        name: "edit-is-confirmed",
        needsSettled: true,
        run: () => confirm("tpu", big),
        over: () => labelOf("n8", TPU) === "v2",
      },
      {
        name: "rule-turns-cyclic",
        needsSettled: true,
        run: () => put("tpu", cyclic),
        over: () => says("tpu", "Ready", "CyclicRule"),
      },
      { name: "rule-is-repaired", run: () => put("tpu", { ...big, confirmAbovePercent: 100 }) },
    ],
    forbidden: strippedUnasked,
  },
  { oldestView: 1 },
);

/** A node lost its label while five were about to, before anybody confirmed that. */
function strippedUnasked(history: readonly HistoryEntry[]): readonly string[] {
  return keyChanges(history)
    .filter(({ entry, key, after }) => entry.by === "controller" && key === TPU && after === undefined)
    .filter(({ entry }) => entry.step === "start" || entry.step === "five-devices-go")
    .map((change) => `a label went though removals must freeze: ${describeKeyChange(change)}`);
}
