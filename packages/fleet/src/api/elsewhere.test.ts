import { expect, it } from "vitest";
import { isElsewhere, isReflection } from "./elsewhere.ts";
import { annotations, finalizers, labels } from "./keys.ts";

it.each([
  ["no metadata", {}, false],
  ["the marks of a cell", { annotations: { [annotations.hubUid]: "h", [annotations.epoch]: "1" } }, false],
  ["the finalizer of a cell", { finalizers: [finalizers.workload] }, false],
  ["a placement, also one that cannot be read", { annotations: { [annotations.placement]: "" } }, true],
  ["the finalizer of the federator", { finalizers: ["a/b", finalizers.federator] }, true],
])("a deployment with %s runs elsewhere: %2$j", (_, metadata, expected) => {
  expect(isElsewhere({ metadata })).toBe(expected);
});

const ofCell = { [annotations.cellUid]: "u" };
const ofHub = { [labels.hubUid]: "u" };

it.each([
  ["no metadata", {}, false],
  ["the uid of a cell, as a copy has it", { annotations: ofCell }, true],
  ["the uid of the hub, as a projection has it", { labels: ofHub }, true],
  [
    "both, from its template",
    { annotations: ofCell, labels: ofHub, finalizers: [finalizers.instance] },
    false,
  ],
])("an Instance with %s is a reflection: %2$j", (_, metadata, expected) => {
  expect(isReflection({ metadata })).toBe(expected);
});
