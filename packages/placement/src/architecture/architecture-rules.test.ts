import { describe, expect, it } from "vitest";
import { createDocumentStage } from "../api/testing/document-stage.ts";
import { architectureRules } from "./compile.ts";
import { BOOTSTRAP_ANNOTATION } from "./document.ts";

const stage = () => createDocumentStage(architectureRules, { mode: "Taint" });

describe("a policy of the cluster", () => {
  it("goes on as it was while its document has a fault, and ends when it is deleted", () => {
    const { source, setCluster, ofCluster } = stage();
    const rules = (): unknown => source.inForce?.policies.map(({ rule }) => rule);
    setCluster(ofCluster("a"));
    setCluster(ofCluster("a", { mode: "Never" }, 2));
    expect(rules()).toEqual(["cluster/a"]);
    expect(source.resultOf("a", { uid: "a", generation: 2 })?.ready).toBe(false);
    setCluster();
    expect(rules()).toEqual([]);
  });

  it("is confirmed by its annotation", () => {
    const { source, setCluster, ofCluster } = stage();
    const policy = ofCluster("a");
    const metadata = { ...policy.metadata, annotations: { [BOOTSTRAP_ANNOTATION]: "true" } };
    setCluster({ ...policy, metadata }, ofCluster("b"));
    expect(source.inForce?.policies.map(({ confirmed }) => confirmed)).toEqual([true, false]);
  });
});
