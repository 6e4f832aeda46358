import { expect, it } from "vitest";
import { createDocumentStage } from "../api/testing/document-stage.ts";
import { footprintRules } from "./compile.ts";

const stage = () => createDocumentStage(footprintRules, { preset: "gpu" });
const labelled = (key: string): object => ({ preset: "gpu", node: { label: { key } } });

it("footprints that want one label leave the first in force, which the other one names", () => {
  const { source, setCluster, ofCluster, ofFile } = stage();
  source.setConfig([ofFile("a", labelled("example.com/agent"))]);
  setCluster(ofCluster("b", labelled("example.com/agent")));
  expect(source.inForce?.footprints.map(({ rule }) => rule)).toEqual(["config/a"]);
  expect(source.resultOf("b", { uid: "b", generation: 1 })).toMatchObject({
    ready: false,
    reason: "FootprintOverlap",
    message: expect.stringMatching(/^spec\.node\.label\.key: config\/a wants/),
  });
  expect(source.configFaults()).toEqual([]);
});

it("a footprint goes on as it was while its document has a fault, and ends when it is deleted", () => {
  const { source, setCluster, ofCluster } = stage();
  const rules = (): unknown => source.inForce?.footprints.map(({ rule }) => rule);
  setCluster(ofCluster("a"));
  setCluster(ofCluster("a", { preset: "never" }, 2));
  expect(rules()).toEqual(["cluster/a"]);
  expect(source.resultOf("a", { uid: "a", generation: 2 })?.ready).toBe(false);
  setCluster();
  expect(rules()).toEqual([]);
  // Its marks can still be taken off, also after another change.
  setCluster(ofCluster("b"));
  expect(source.inForce?.policy.declared.ids).toEqual(
    new Set(["label/footprint.berth.dev/a", "label/footprint.berth.dev/b"]),
  );
});
