import { describe, expect, it } from "vitest";
import type { ResourceClaim } from "../api/quota.ts";
import type { Instance, InstanceRuntime } from "../api/workload.ts";
import { claimFor, instanceClaiming, isClaimOfAnother, relationOf } from "./claim.ts";
import { aClaim, anInstance, aView, runtime } from "./testing/views.ts";

it("A16 R5 the claim names the project that pays, what it pays for, and the Instance", () => {
  const project = { apiGroup: "resourcemanager.miloapis.com", kind: "Project", name: "web" };
  expect(claimFor(aView(), "web")).toEqual({
    metadata: {
      name: "instance-w-us-dfw-0",
      labels: {
        "compute.datumapis.com/source-cluster": "dfw-01",
        "compute.datumapis.com/instance-namespace": "ns-u",
        "compute.datumapis.com/instance-uid": "uid-1",
      },
    },
    spec: {
      consumerRef: project,
      resourceRef: project,
      requests: [
        { resourceType: "compute.datumapis.com/instances", amount: 1 },
        { resourceType: "compute.datumapis.com/vcpus", amount: 1000 },
        { resourceType: "compute.datumapis.com/memory", amount: 2048 },
      ],
    },
  });
});

describe("R13 the size of a claim", () => {
  const limited = (...limits: readonly (Record<string, string | number> | undefined)[]): InstanceRuntime => ({
    ...runtime,
    sandbox: {
      containers: limits.map((one, n) => ({
        name: `c${n}`,
        image: "i",
        resources: { limits: (one ?? {}) as Record<string, string> },
      })),
    },
  });
  const typed = (instanceType: string, requests?: Record<string, string>): InstanceRuntime => ({
    resources: { instanceType, ...(requests && { requests }) },
  });
  const unknown = "acme/unknown";

  it.each<[string, InstanceRuntime, readonly number[]]>([
    ["is that of the catalog", runtime, [1, 1000, 2048]],
    [
      "is the sum of the limits, if all containers have them",
      limited({ cpu: "250m", memory: "1Gi" }, { cpu: 2, memory: "512Mi" }),
      [1, 2250, 1536],
    ],
    [
      "is that of the catalog, if one container has no limits",
      limited({ cpu: "1", memory: "1Gi" }, undefined),
      [1, 1000, 2048],
    ],
    ["is that of the catalog, if a limit is missing", limited({ cpu: "250m" }), [1, 1000, 2048]],
    [
      "is that of the catalog, if a limit is no quantity",
      limited({ cpu: "much", memory: "1Gi" }),
      [1, 1000, 2048],
    ],
    ["is that of the catalog, if a limit is below 0", limited({ cpu: "-1", memory: "1Gi" }), [1, 1000, 2048]],
    ["is that of the catalog, if a limit is 0", limited({ cpu: "0", memory: "1Gi" }), [1, 1000, 2048]],
    [
      "is that of the catalog, if the requests are 0",
      typed("datumcloud/d1-standard-2", { cpu: "0", memory: "0" }),
      [1, 1000, 2048],
    ],
    [
      "is that of the requests, before the catalog",
      typed("datumcloud/d1-standard-2", { cpu: "3", memory: "3Gi" }),
      [1, 3000, 3072],
    ],
    ["is unknown for an unknown type with half of the requests", typed(unknown, { cpu: "3" }), [1]],
    ["is unknown for an unknown type", typed(unknown), [1]],
    ["is unknown for the name of a property of every object", typed("constructor"), [1]],
    ["is rounded up to whole units", limited({ cpu: "100u", memory: "1" }), [1, 1, 1]],
  ])("%s", (_, of, amounts) => {
    const claim = claimFor(aView({ instance: anInstance({ runtime: of }) }), "web");
    expect(claim.spec?.requests.map(({ amount }) => amount)).toEqual(amounts);
  });
});

describe("R4 a changed claim", () => {
  const claim = aClaim();

  it.each(["dfw-01", "single"])(
    "of the cluster %s leads to its Instance, by the label and the name",
    (source) => {
      expect(instanceClaiming(aClaim({ source }), "dfw-01")).toEqual({
        namespace: "ns-u",
        name: "w-us-dfw-0",
      });
    },
  );

  it.each([
    ["of another cluster", aClaim({ source: "ord-01" })],
    [
      "without the namespace",
      { metadata: { ...claim.metadata, labels: { "compute.datumapis.com/source-cluster": "dfw-01" } } },
    ],
    ["of another kind of resource (R5)", { metadata: { ...claim.metadata, name: "w-us-dfw-0" } }],
    ["without metadata", {}],
  ])("%s leads nowhere", (_, other) => {
    expect(instanceClaiming(other, "dfw-01")).toBeUndefined();
  });
});

const asked = claimFor(aView(), "web").spec ?? expect.fail("a claim has a spec");
const asking = (change: Partial<typeof asked>): ResourceClaim => ({
  ...aClaim(),
  spec: { ...asked, ...change },
});

describe("what a claim with the name of an Instance is to it", () => {
  const original = (claim?: string): Instance => {
    const { metadata, spec, ...rest } = anInstance();
    const annotations = { ...(claim !== undefined && { "berth.dev/claim": claim }) };
    const controller = { ...spec?.controller, templateHash: "bcdf4567" };
    return {
      ...rest,
      metadata: { ...metadata, annotations },
      ...(spec && { spec: { ...spec, controller } }),
    };
  };
  const unlabelled = aClaim({ uid: undefined, source: "single" });
  const other = aClaim({ uid: undefined, project: "shop" });

  it.each<[string, ResourceClaim, Instance, string]>([
    ["H13 with its uid", aClaim(), anInstance(), "own"],
    ["H13 with another uid", aClaim({ uid: "uid-0" }), anInstance(), "foreign"],
    ["of another cluster", aClaim({ source: "ord-01" }), anInstance(), "foreign"],
    ["with its uid, for another project", aClaim({ project: "shop" }), anInstance(), "wrong"],
    ["with its uid, of other requests", asking({ requests: [] }), anInstance(), "wrong"],
    [
      "with its uid, of other amounts",
      asking({ requests: asked.requests.map((it) => ({ ...it, amount: it.amount + 1 })) }),
      anInstance(),
      "wrong",
    ],
    [
      "with its uid, of another order",
      asking({ requests: asked.requests.toReversed() }),
      anInstance(),
      "own",
    ],
    ...["apiGroup", "kind"].map((field): [string, ResourceClaim, Instance, string] => [
      `with its uid, for a consumer of another ${field}`,
      asking({ consumerRef: { ...asked.consumerRef, [field]: "x" } }),
      anInstance(),
      "wrong",
    ]),
    ["with its uid, without a spec", { metadata: aClaim().metadata ?? {} }, anInstance(), "wrong"],
    ["without a uid, of an Instance of Berth", unlabelled, anInstance(), "leftOver"],
    ["without a uid, of an Instance of the original", unlabelled, original(), "adoptable"],
    ["without a uid, for another project", other, original(), "leftOver"],
    ["without a uid, which was adopted", unlabelled, original("claim-1"), "own"],
    ["without a uid, where another one was adopted", unlabelled, original("claim-0"), "adoptable"],
    ["without a uid, adopted by an Instance of Berth", unlabelled, withClaim(anInstance()), "leftOver"],
    ["without anything", {}, anInstance(), "foreign"],
  ])("%s: %o", (_, claim, instance, expected) => {
    expect(relationOf(claim, aView({ instance }), "web")).toBe(expected);
  });
});

it.each<[string, ResourceClaim, string | undefined, boolean]>([
  ["of an Instance that is gone", aClaim(), undefined, true],
  ["of an Instance that had the name", aClaim(), "uid-2", true],
  ["of this very Instance", aClaim(), "uid-1", false],
  ["without a uid", aClaim({ uid: undefined }), "uid-1", false],
  ["of another cluster", aClaim({ source: "ord-01" }), "uid-2", false],
  ["without metadata", {}, "uid-2", false],
])("a claim %s is left over in its cluster and namespace alone", (_, claim, uid, isLeft) => {
  const at = { namespace: "ns-u", source: "dfw-01", uid };
  expect(isClaimOfAnother(claim, at)).toBe(isLeft);
  expect(isClaimOfAnother(claim, { ...at, namespace: "ns-v" })).toBe(false);
});

function withClaim(instance: Instance): Instance {
  return { ...instance, metadata: { ...instance.metadata, annotations: { "berth.dev/claim": "claim-1" } } };
}
