import { isRuleKnown, type Policy, unreadPolicy } from "@berth/placement";
import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { architectureDocuments, createArchitectureHub } from "./architecture-policies.ts";
import { createFootprintHub, footprintDocuments } from "./footprint/footprints.ts";
import { createGateHub, gateDocuments } from "./startup-gates.ts";
import { createDocumentStage, type DocumentStage } from "./testing/document-stage.ts";

interface Kind<S, T> {
  readonly kind: string;
  readonly create: () => DocumentStage<S, T>;
  readonly rulesOf: (inForce: T) => readonly { readonly rule: string }[];
  /** Of a document without a fault, and of one whose name is taken. */
  readonly reasons: { readonly inForce: string; readonly nameTaken: string };
  /** A spec that passes the schema and is at fault; `field` is a pattern of where. */
  readonly bad: { readonly spec: object; readonly field: string; readonly reason: string };
}

const clock = createVirtualClock();
const gate = (key: string): object => ({ taint: { key }, signals: { labelsSettled: true } });

testKind({
  kind: "startup gates",
  create: () =>
    createDocumentStage(
      gateDocuments,
      gate("example.com/a"),
      (onChange) => createGateHub({ clock, onChange }).hub,
    ),
  rulesOf: ({ gates }) => gates,
  reasons: { inForce: "GateInForce", nameTaken: "GateOverlap" },
  bad: { spec: gate("node.kubernetes.io/x"), field: String.raw`taint\.key`, reason: "GateInvalid" },
});
testKind({
  kind: "architecture policies",
  create: () => createDocumentStage(architectureDocuments, { mode: "Taint" }, createArchitectureHub),
  rulesOf: ({ policies }) => policies,
  reasons: { inForce: "ArchitecturePolicyInForce", nameTaken: "ArchitecturePolicyInvalid" },
  bad: {
    spec: { mode: "Taint", taint: { key: "node.kubernetes.io/x" } },
    field: String.raw`taint\.key`,
    reason: "ArchitecturePolicyInvalid",
  },
});
testKind({
  kind: "node footprints",
  create: () => createDocumentStage(footprintDocuments, { preset: "gpu" }, createFootprintHub),
  rulesOf: ({ footprints }) => footprints,
  reasons: { inForce: "FootprintInForce", nameTaken: "FootprintInvalid" },
  bad: {
    spec: { preset: "gpu", node: { label: { key: "kubernetes.io/agent" } } },
    field: String.raw`node\.label\.key`,
    reason: "FootprintInvalid",
  },
});

function testKind<S, T extends { readonly policy: Policy }>(given: Kind<S, T>): void {
  const { kind, create, rulesOf, reasons, bad } = given;
  const rules = ({ hub }: DocumentStage<S, T>): readonly string[] | undefined =>
    hub.inForce && rulesOf(hub.inForce).map(({ rule }) => rule);

  describe(`a hub of ${kind}`, () => {
    it("has nothing in force until one source has been read", () => {
      const stage = create();
      stage.hub.settle();
      expect([rules(stage), stage.changes()]).toEqual([undefined, 0]);
    });

    it("is not settled before the cluster has been read: what is in no file may be there", () => {
      const { hub, setCluster } = create();
      hub.setConfig([]);
      expect(hub.inForce?.policy.unsettled?.sources).toEqual(new Set(["config"]));
      setCluster();
      expect(hub.inForce?.policy.unsettled).toBeUndefined();
    });

    it("is settled without the cluster when it is said that it will not be read, and goes on when it is", () => {
      const stage = create();
      stage.hub.setConfig([stage.ofFile("a")]);
      stage.hub.settle();
      expect([rules(stage), stage.hub.inForce?.policy.unsettled]).toEqual([["config/a"], undefined]);
      expect(stage.hub.inForce?.policy.sourcesRead).toEqual(new Set(["config"]));
      stage.hub.setConfig([]);
      stage.setCluster(stage.ofCluster("b"));
      expect(rules(stage)).toEqual(["cluster/b"]);
      expect(stage.hub.inForce?.policy.sourcesRead).toEqual(new Set(["config", "cluster"]));
    });

    it("I-3 has none of the cluster in force while their CRD is away, and does not take them for deleted", () => {
      const stage = create();
      stage.setCluster(stage.ofCluster("a"));
      stage.hub.setCluster(undefined);
      const policy = stage.hub.inForce?.policy;
      expect([rules(stage), policy?.isUndecided]).toEqual([[], true]);
      expect(policy && isRuleKnown(policy, "cluster/a")).toBe(false);
      stage.hub.setConfig([stage.ofFile("b")]);
      expect([rules(stage), stage.hub.inForce?.policy.isUndecided]).toEqual([["config/b"], undefined]);
      stage.setCluster();
      expect(isRuleKnown(stage.hub.inForce?.policy ?? unreadPolicy, "cluster/a")).toBe(true);
    });

    it("I-3 knows of a young CRD which documents are deleted, and of no other", () => {
      const { hub } = create();
      for (const [deleted, isUndecided] of [
        [[], true],
        [["cluster/a"], undefined],
      ] as const) {
        hub.setCluster({ objects: [], unsettled: { deleted: new Set(deleted) } });
        const policy = hub.inForce?.policy ?? unreadPolicy;
        expect([isRuleKnown(policy, "cluster/a"), isRuleKnown(policy, "cluster/b")]).toEqual([
          isUndecided === undefined,
          false,
        ]);
        expect(policy.isUndecided).toBe(isUndecided);
      }
    });

    it("lets the file win over the cluster, and says so of the object", () => {
      const stage = create();
      stage.hub.setConfig([stage.ofFile("a")]);
      stage.setCluster(stage.ofCluster("a"));
      expect(rules(stage)).toEqual(["config/a"]);
      expect(stage.hub.judgementOf("a", { uid: "a", generation: 1 })).toMatchObject({
        ready: false,
        reason: reasons.nameTaken,
        message: expect.stringContaining("config/a has the same name"),
      });
    });

    it("judges an object in the version that was read, and in no other", () => {
      const { hub, setCluster, ofCluster } = create();
      setCluster(ofCluster("a"), ofCluster("bad", bad.spec));
      expect(hub.judgementOf("a", { uid: "a", generation: 1 })).toEqual({
        ready: true,
        reason: reasons.inForce,
        message: "in force",
      });
      expect(hub.judgementOf("bad", { uid: "bad", generation: 1 })).toMatchObject({
        ready: false,
        reason: bad.reason,
        message: expect.stringMatching(new RegExp(`^spec\\.${bad.field}: `)),
      });
      expect(hub.judgementOf("a", { uid: "a", generation: 2 })).toBeUndefined();
      expect(hub.judgementOf("a", { uid: "another", generation: 1 })).toBeUndefined();
    });

    it("tells what is wrong with a document of a file where it stands there", () => {
      const { hub, ofFile } = create();
      hub.setConfig([ofFile("bad", bad.spec)]);
      expect(hub.configFaults()).toEqual([
        {
          file: "documents.yaml",
          line: 7,
          column: 3,
          severity: "error",
          reason: bad.reason,
          message: expect.stringMatching(new RegExp(`^bad: spec\\.${bad.field}: `)),
        },
      ]);
    });
  });
}
