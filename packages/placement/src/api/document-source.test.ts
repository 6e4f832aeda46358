import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { architectureRules } from "../architecture/compile.ts";
import { descheduleRules } from "../deschedule/compile.ts";
import { footprintRules } from "../footprint/compile.ts";
import { isRuleKnown, type Policy, unreadPolicy } from "../node/capability.ts";
import { createGateRules } from "../startup-gate/gone-gates.ts";
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
  create: () => createDocumentStage(createGateRules(clock).rules, gate("example.com/a")),
  rulesOf: ({ gates }) => gates,
  reasons: { inForce: "GateInForce", nameTaken: "GateOverlap" },
  bad: { spec: gate("node.kubernetes.io/x"), field: String.raw`taint\.key`, reason: "GateInvalid" },
});
testKind({
  kind: "architecture policies",
  create: () => createDocumentStage(architectureRules, { mode: "Taint" }),
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
  create: () => createDocumentStage(footprintRules, { preset: "gpu" }),
  rulesOf: ({ footprints }) => footprints,
  reasons: { inForce: "FootprintInForce", nameTaken: "FootprintInvalid" },
  bad: {
    spec: { preset: "gpu", node: { label: { key: "kubernetes.io/agent" } } },
    field: String.raw`node\.label\.key`,
    reason: "FootprintInvalid",
  },
});

testDocuments({
  kind: "deschedule policies",
  create: () => createDocumentStage(descheduleRules, {}),
  rulesOf: ({ policies }) => policies,
  reasons: { inForce: "DeschedulePolicyInForce", nameTaken: "DeschedulePolicyInvalid" },
  bad: {
    spec: { podSelector: { matchLabels: { "not a key": "x" } } },
    field: String.raw`podSelector\.matchLabels.*`,
    reason: "DeschedulePolicyInvalid",
  },
});

function rulesIn<S, T>({ rulesOf }: Kind<S, T>) {
  return ({ source }: DocumentStage<S, T>): readonly string[] | undefined =>
    source.inForce && rulesOf(source.inForce).map(({ rule }) => rule);
}

function testKind<S, T extends { readonly policy: Policy }>(given: Kind<S, T>): void {
  const { kind, create } = given;
  const rules = rulesIn(given);
  testDocuments(given);

  describe(`documents of ${kind}, whose marks stay while a source is not read`, () => {
    it("is not settled before the cluster has been read: what is in no file may be there", () => {
      const { source, setCluster } = create();
      source.setConfig([]);
      expect(source.inForce?.policy.unsettled?.sources).toEqual(new Set(["config"]));
      setCluster();
      expect(source.inForce?.policy.unsettled).toBeUndefined();
    });

    it("is settled without the cluster when it is said that it will not be read, and goes on when it is", () => {
      const stage = create();
      stage.source.setConfig([stage.ofFile("a")]);
      stage.source.settle();
      expect([rules(stage), stage.source.inForce?.policy.unsettled]).toEqual([["config/a"], undefined]);
      expect(stage.source.inForce?.policy.sourcesRead).toEqual(new Set(["config"]));
      stage.source.setConfig([]);
      stage.setCluster(stage.ofCluster("b"));
      expect(rules(stage)).toEqual(["cluster/b"]);
      expect(stage.source.inForce?.policy.sourcesRead).toEqual(new Set(["config", "cluster"]));
    });

    it("I-3 has none of the cluster in force while their CRD is away, and does not take them for deleted", () => {
      const stage = create();
      stage.setCluster(stage.ofCluster("a"));
      stage.source.setCluster(undefined);
      const policy = stage.source.inForce?.policy;
      expect([rules(stage), policy?.isUndecided]).toEqual([[], true]);
      expect(policy && isRuleKnown(policy, "cluster/a")).toBe(false);
      stage.source.setConfig([stage.ofFile("b")]);
      expect([rules(stage), stage.source.inForce?.policy.isUndecided]).toEqual([["config/b"], undefined]);
      stage.setCluster();
      expect(isRuleKnown(stage.source.inForce?.policy ?? unreadPolicy, "cluster/a")).toBe(true);
    });

    it("I-3 knows of a young CRD which documents are deleted, and of no other", () => {
      const { source } = create();
      for (const [deleted, isUndecided] of [
        [[], true],
        [["cluster/a"], undefined],
      ] as const) {
        source.setCluster({ objects: [], unsettled: { deleted: new Set(deleted) } });
        const policy = source.inForce?.policy ?? unreadPolicy;
        expect([isRuleKnown(policy, "cluster/a"), isRuleKnown(policy, "cluster/b")]).toEqual([
          isUndecided === undefined,
          false,
        ]);
        expect(policy.isUndecided).toBe(isUndecided);
      }
    });
  });
}

/** What holds of each kind, also of one that sets no marks and so has no `policy`. */
function testDocuments<S, T>(given: Kind<S, T>): void {
  const { kind, create, reasons, bad } = given;
  const rules = rulesIn(given);

  describe(`documents of ${kind}`, () => {
    it("has nothing in force until one source has been read", () => {
      const stage = create();
      stage.source.settle();
      expect([rules(stage), stage.changes()]).toEqual([undefined, 0]);
    });

    it("lets the file win over the cluster, and says so of the object", () => {
      const stage = create();
      stage.source.setConfig([stage.ofFile("a")]);
      stage.setCluster(stage.ofCluster("a"));
      expect(rules(stage)).toEqual(["config/a"]);
      expect(stage.source.resultOf("a", { uid: "a", generation: 1 })).toMatchObject({
        ready: false,
        reason: reasons.nameTaken,
        message: expect.stringContaining("config/a has the same name"),
      });
    });

    it("judges an object in the version that was read, and in no other", () => {
      const { source, setCluster, ofCluster } = create();
      setCluster(ofCluster("a"), ofCluster("bad", bad.spec));
      expect(source.resultOf("a", { uid: "a", generation: 1 })).toEqual({
        ready: true,
        reason: reasons.inForce,
        message: "in force",
      });
      expect(source.resultOf("bad", { uid: "bad", generation: 1 })).toMatchObject({
        ready: false,
        reason: bad.reason,
        message: expect.stringMatching(new RegExp(`^spec\\.${bad.field}: `)),
      });
      expect(source.resultOf("a", { uid: "a", generation: 2 })).toBeUndefined();
      expect(source.resultOf("a", { uid: "another", generation: 1 })).toBeUndefined();
    });

    it("says of an object that is not stored what it would say then, and puts nothing in force", () => {
      const stage = create();
      const { source, ofCluster } = stage;
      source.setConfig([stage.ofFile("f")]);
      stage.setCluster(ofCluster("a"));
      const [before, changes] = [rules(stage), stage.changes()];
      const fault = expect.stringMatching(new RegExp(`^${bad.reason}: spec\\.${bad.field}: `));
      expect(source.remarksOn(ofCluster("a", bad.spec))).toEqual([fault]);
      expect(source.remarksOn(ofCluster("new", bad.spec))).toEqual([fault]);
      expect(source.remarksOn(ofCluster("f"))).toContain(
        `${reasons.nameTaken}: config/f has the same name and goes before it`,
      );
      expect(source.remarksOn(ofCluster("new", { no: "field" }))).toHaveLength(1);
      expect([rules(stage), stage.changes()]).toEqual([before, changes]);
      source.setConfig([]);
      expect(source.remarksOn(ofCluster("a"))).toEqual([]);
    });

    it("tells what is wrong with a document of a file where it stands there", () => {
      const { source, ofFile } = create();
      source.setConfig([ofFile("bad", bad.spec)]);
      expect(source.configFaults()).toEqual([
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
