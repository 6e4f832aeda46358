import * as fc from "fast-check";
import { capabilityContract } from "../node/testing/capability-contract.ts";
import { folderOf, labelsFrom } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { labelFields } from "./facts.ts";

const key = fc.constantFrom("a", "b", "c", "x", "y", "foreign");
const labels = fc.dictionary(key, fc.constantFrom("true", "other"));

capabilityContract({
  enabled: labelsFrom(folderOf({ a: "x", b: "a\ny", c: "c\nb", "ns/d": "foreign" })),
  disabled: labelsFrom(folderOf({})),
  fields: labelFields,
  nodes: labels.map((labels) =>
    makeNode({ labels, annotations: { theirs: "1" }, taints: [{ key: "t", effect: "NoSchedule" }] }),
  ),
  edits: fc.dictionary(key, fc.constantFrom("true", "other", null)).map((labels) => ({ labels })),
});
