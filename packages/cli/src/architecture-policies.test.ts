import { BOOTSTRAP_ANNOTATION } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { architectureDocuments, createArchitectureHub } from "./architecture-policies.ts";
import { createDocumentStage } from "./testing/document-stage.ts";

const stage = () => createDocumentStage(architectureDocuments, { mode: "Taint" }, createArchitectureHub);

describe("a policy of the cluster", () => {
  it("goes on as it was while its document has a fault, and ends when it is deleted", () => {
    const { hub, setCluster, ofCluster } = stage();
    const rules = (): unknown => hub.inForce?.policies.map(({ rule }) => rule);
    setCluster(ofCluster("a"));
    setCluster(ofCluster("a", { mode: "Never" }, 2));
    expect(rules()).toEqual(["cluster/a"]);
    expect(hub.judgementOf("a", { uid: "a", generation: 2 })?.ready).toBe(false);
    setCluster();
    expect(rules()).toEqual([]);
  });

  it("is confirmed by its annotation", () => {
    const { hub, setCluster, ofCluster } = stage();
    const policy = ofCluster("a");
    const metadata = { ...policy.metadata, annotations: { [BOOTSTRAP_ANNOTATION]: "true" } };
    setCluster({ ...policy, metadata }, ofCluster("b"));
    expect(hub.inForce?.policies.map(({ confirmed }) => confirmed)).toEqual([true, false]);
  });
});
