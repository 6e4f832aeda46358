/** The stories of the capability `labels`: rules in `LabelRule` objects. */
import type { PerturbationStory } from "@berth/testcluster";
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
  steps: ({ drop, label, put }) => [
    {
      name: "rules-come",
      async run() {
        await put("tpu", tpu);
        await put("pool", pool);
      },
    },
    { name: "device-goes", run: () => label("n1", { [USB]: null }) },
    { name: "device-returns", run: () => label("n1", { [USB]: "2" }) },
    { name: "rule-is-edited", run: () => put("tpu", edited) },
    { name: "device-goes-again", run: () => label("n1", { [USB]: null }) },
    { name: "another-device-comes", run: () => label("n1", { [PCI]: "1" }) },
    { name: "rule-goes", run: () => drop("tpu") },
  ],
});
