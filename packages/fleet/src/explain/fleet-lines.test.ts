import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { DeploymentStatus, WorkloadDeployment } from "../api/workload.ts";
import { aCondition } from "../deployment/testing/fixtures.ts";
import { aPlacement, onHub } from "../hub/testing/fixtures.ts";
import { type FleetLists, fleetLines, formatFleet, isDeploymentAtRest } from "./fleet-lines.ts";
import { aDeployment, aWorkload, instancesIn, placement } from "./testing/facts.ts";

const NOW_MS = Date.parse("2026-01-01T00:05:00Z");
const lists: FleetLists = { workloads: [], deployments: [], instances: [], namespaces: [] };

function statusOf(ready: number, fields: Partial<DeploymentStatus> = {}): DeploymentStatus {
  return {
    replicas: 2,
    currentReplicas: 2,
    updatedReplicas: 2,
    desiredReplicas: 2,
    readyReplicas: ready,
    observedGeneration: 1,
    ...fields,
  };
}

const stale = statusOf(2, {
  unheard: 2,
  since: "2026-01-01T00:00:00Z",
  conditions: [aCondition("Stale", "True", "CellUnreachable", "no answer")],
});
const dfw = aDeployment({ status: statusOf(2) });
const ord = aDeployment({ name: "w-us-ord", city: "ORD", status: stale });
const both = aWorkload({ placements: [placement("us", ["DFW", "ORD"], 2)] });

describe("the lines of a fleet", () => {
  it("are cities × Workloads; what is not heard is counted apart and has its reason", () => {
    const lines = fleetLines({ ...lists, workloads: [both], deployments: [ord, dfw] });
    expect(lines).toEqual([
      expect.objectContaining({ city: "DFW", workload: "w", wanted: 2, ready: 2, unheard: 0, reason: "" }),
      expect.objectContaining({
        city: "ORD",
        ready: 2,
        unheard: 2,
        reason: "CellUnreachable",
        since: stale.since,
      }),
    ]);
  });

  it("name both cells of a deployment that moves", () => {
    const next = { cell: "dfw-02", uid: "uid-dfw-02", epoch: 2, start: 1000 };
    const placed = aPlacement("dfw-01", { last: 2, next });
    const hub = onHub({ source: dfw.metadata?.uid ?? "", placed, status: statusOf(2) });
    const [line] = fleetLines({ ...lists, deployments: [dfw, hub] });
    expect(line).toMatchObject({ cells: ["dfw-01", "dfw-02"], reason: "Moving" });
  });

  it("sum the placements of a city", () => {
    const eu = aDeployment({ name: "w-eu-dfw", placement: "eu", min: 3, status: statusOf(1) });
    const [line, ...more] = fleetLines({ ...lists, deployments: [dfw, eu] });
    expect([line, more]).toEqual([expect.objectContaining({ wanted: 5, ready: 3, updated: 4 }), []]);
  });

  it("name the cells of the hub's deployments, and do not count these beside those of the project", () => {
    const labels = (it: WorkloadDeployment): KubeObject["metadata"] => ({
      ...it.metadata,
      labels: { ...it.metadata?.labels, "berth.dev/cell": "dfw-01" },
    });
    const hub = onHub({ source: dfw.metadata?.uid ?? "", placed: aPlacement("dfw-01"), status: statusOf(2) });
    const copy = { ...hub, metadata: labels(hub) ?? {} };
    expect(fleetLines({ ...lists, deployments: [dfw, copy] })).toEqual([
      expect.objectContaining({ namespace: "default", cells: ["dfw-01"], ready: 2 }),
    ]);
    const upstream = "meta.datumapis.com/upstream-cluster-name";
    const namespaces = [{ metadata: { name: "ns-U", labels: { [upstream]: "cluster-acme_web" } } }];
    expect(fleetLines({ ...lists, deployments: [copy], namespaces })).toEqual([
      expect.objectContaining({ project: "web", namespace: "default", workload: "w", cells: ["dfw-01"] }),
    ]);
  });

  it("have the reason of the Instance that says the most, and of a city that has no deployment", () => {
    const [instance] = instancesIn(dfw, "N");
    const conditions = [aCondition("Ready", "False", "ImageUnavailable")];
    const instances = instance ? [{ ...instance, status: { conditions } }] : [];
    const missing = aCondition("Available", "False", "NoMatchingLocations");
    const workload = { ...both, status: { ...statusOf(0), deployments: 1, conditions: [missing] } };
    const lines = fleetLines({ ...lists, workloads: [workload], deployments: [dfw], instances });
    expect(lines.map(({ city, wanted, reason }) => [city, wanted, reason])).toEqual([
      ["DFW", 2, "ImageUnavailable"],
      ["ORD", 2, "NoMatchingLocations"],
    ]);
  });

  it("say that a cell has not confirmed the present template", () => {
    const carried = { annotations: { "compute.datumapis.com/federation-namespace": "ns-U" }, generation: 2 };
    const late = aDeployment({ metadata: carried, status: statusOf(2) });
    const done = aDeployment({ metadata: carried, status: statusOf(2, { observedGeneration: 2 }) });
    const reasonOf = (it: WorkloadDeployment) => fleetLines({ ...lists, deployments: [it] })[0]?.reason;
    expect([reasonOf(late), reasonOf(done)]).toEqual(["AwaitingEcho", ""]);
  });

  it("say Pending until Berth has looked at a deployment", () => {
    expect(fleetLines({ ...lists, deployments: [aDeployment()] })[0]?.reason).toBe("Pending");
  });

  it("are rows, with the time since a cell was heard", () => {
    const lines = fleetLines({ ...lists, workloads: [both], deployments: [ord, dfw] });
    expect(formatFleet(lines, NOW_MS)).toMatchInlineSnapshot(`
      "CITY   NAMESPACE   WORKLOAD   CELL   WANTED   READY   UPDATED   UNHEARD   REASON
      DFW    default     w                 2        2       2         0
      ORD    default     w                 2        2       2         2 (5m)    CellUnreachable
      "
    `);
  });
});

describe("a deployment is at rest", () => {
  it.each<[string, DeploymentStatus | undefined, boolean]>([
    ["when all of it runs", statusOf(2), true],
    ["never without a status", undefined, false],
    ["not while one is not ready", statusOf(1), false],
    ["not with a status of another generation", statusOf(2, { observedGeneration: 0 }), false],
    ["not while its cell is not heard", stale, false],
  ])("%s", (_, status, expected) => {
    expect(isDeploymentAtRest(aDeployment(status ? { status } : {}))).toBe(expected);
  });
});
