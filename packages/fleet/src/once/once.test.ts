import { describe, expect, it } from "vitest";
import { isAtRest, overview } from "../explain/overview.ts";
import { aDeployment, aWorkload, instancesIn, placement } from "../explain/testing/facts.ts";
import { restartOf, scaleOf } from "./change.ts";
import { readWorkloads } from "./plan.ts";

const placements = [placement("us", ["DFW"], 2), placement("eu", ["FRA"], 1)];
const [only] = placements;

describe("scaleOf", () => {
  it("replaces the number of the placement, and only while it is in its place", () => {
    const change = scaleOf(aWorkload({ placements }), 5, "eu");
    expect(change).toMatchObject({ what: "minReplicas of placement eu (FRA)", before: "1", after: "5" });
    expect("patch" in change && change.patch.body).toEqual([
      { op: "test", path: "/spec/placements/1/name", value: "eu" },
      { op: "replace", path: "/spec/placements/1/scaleSettings/minReplicas", value: 5 },
    ]);
    expect("next" in change && change.next.spec?.placements[1]?.scaleSettings.minReplicas).toBe(5);
  });

  it.each([
    [
      "several placements and no name",
      placements,
      undefined,
      "it has several placements: give --placement with one of us, eu",
    ],
    ["a name that it does not have", placements, "asia", "it has no placement asia; there is: us, eu"],
  ])("refuses %s", (_name, given, name, problem) => {
    expect(scaleOf(aWorkload({ placements: given }), 5, name)).toEqual({ problem });
  });

  it("takes the only placement", () => {
    const change = scaleOf(aWorkload({ placements: only ? [only] : [] }), 5, undefined);
    expect(change).toMatchObject({ before: "2", after: "5" });
  });

  it("leaves a Workload alone that ends", () => {
    const ending = aWorkload({ placements, metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } });
    expect(scaleOf(ending, 5, "us")).toEqual({ problem: "it is being deleted" });
    expect(restartOf(ending, "2026-01-01T00:00:00Z")).toEqual({ problem: "it is being deleted" });
  });
});

describe("restartOf", () => {
  it("changes one annotation of the template", () => {
    const now = "2026-01-01T00:00:00Z";
    const change = restartOf(aWorkload({ placements }), now);
    expect(change).toMatchObject({ before: "never", after: now });
    const again = "next" in change ? restartOf(change.next, "2026-01-02T00:00:00Z") : undefined;
    expect(again).toMatchObject({ before: now, after: "2026-01-02T00:00:00Z" });
  });
});

describe("readWorkloads", () => {
  const TEXT = `apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: w}
spec:
  template:
    spec:
      runtime: {resources: {instanceType: datumcloud/d1-standard-2}, sandbox: {containers: [{name: app, image: "app:1"}]}}
      networkInterfaces: [{network: {name: default}}]
  placements: [{name: us, cityCodes: [DFW], scaleSettings: {minReplicas: 2}}]
`;

  it("fills in the defaults of the CRD", () => {
    const { given, faults } = readWorkloads("w.yaml", TEXT);
    expect(faults).toEqual([]);
    expect(given[0]?.workload.spec?.placements[0]?.scaleSettings.instanceManagementPolicy).toBe(
      "OrderedReady",
    );
  });

  it.each([
    [TEXT.replace("kind: Workload", "kind: Service"), /^w.yaml:2:7: kind: /],
    [TEXT.replace("cityCodes", "cities"), /^w.yaml:9:\d+: spec.placements.0.cityCodes: is required/],
    ["{", /^w.yaml:1:\d+: /],
  ])("says where a fault is (%#)", (text, expected) => {
    const [fault] = readWorkloads("w.yaml", text).faults;
    expect(`${fault?.file}:${fault?.line}:${fault?.column}: ${fault?.message}`).toMatch(expected);
  });
});

describe("overview", () => {
  const counts = {
    replicas: 3,
    readyReplicas: 3,
    updatedReplicas: 3,
    currentReplicas: 3,
    desiredReplicas: 3,
    deployments: 2,
  };

  it("needs nothing but the status of a Workload at rest", () => {
    const rest = {
      ...aWorkload({ placements, metadata: { generation: 2 } }),
      status: { ...counts, observedGeneration: 2 },
    };
    expect(isAtRest(rest)).toBe(true);
    expect(isAtRest({ ...rest, status: { ...rest.status, observedGeneration: 1 } })).toBe(false);
    expect(overview([rest], [], [])).toMatchObject([
      { ready: 3, desired: 3, reason: "", cities: ["DFW", "FRA"] },
    ]);
  });

  it("shows a Workload that Berth has not looked at", () => {
    expect(overview([aWorkload({ placements })], [], [])).toMatchObject([
      { available: "Unknown", reason: "Pending" },
    ]);
  });

  it("says nothing of another namespace whose objects name the uid of the Workload", () => {
    const of = (namespace: string): string | undefined => {
      const deployment = aDeployment({ metadata: { namespace } });
      return overview([aWorkload({ placements })], [deployment], instancesIn(deployment, "D"))[0]?.reason;
    };
    expect([of("evil"), of("default")]).toEqual(["Pending", "Deleting"]);
  });
});
