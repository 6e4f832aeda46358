import type { PolicyRule } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type FleetSpec, fleetKind } from "./document.ts";
import { cellHomeRules, fleetPermissions, planeRules } from "./permissions.ts";
import { isFleetLease } from "./settings.ts";

/** `workloads/status: patch`, of each resource that the mode may use at all. */
function permissionsOf(spec: object | undefined): readonly string[] {
  const parsed = spec && fleetKind.spec.parse(spec);
  const documents = { documentsOf: () => [], specOf: () => parsed as never };
  const asked = fleetPermissions({ name: "berth", documents, flags: new Set() });
  return namesOf(asked.map(({ rule }) => rule));
}

function namesOf(rules: readonly PolicyRule[]): readonly string[] {
  return rules.flatMap(({ resources = [], verbs }) =>
    resources.map((resource) => `${resource}: ${verbs.join(" ")}`),
  );
}

const PROJECT = { path: "acme/web", kubeconfig: "p" };

const CELL = { mode: "cell", cell: "dfw-01" } satisfies Partial<FleetSpec>;

describe("R10 the permissions of a fleet", () => {
  it("are none without a Fleet", () => {
    expect(permissionsOf(undefined)).toEqual([]);
  });

  it("let a cell change Instances, and only look at its deployments but for their status", () => {
    expect(permissionsOf(CELL)).toEqual(
      expect.arrayContaining([
        "workloaddeployments: list watch patch",
        "workloaddeployments/status: patch",
        "instances: list watch patch",
        "instances: create delete",
        "pods: list watch create delete",
      ]),
    );
    expect(permissionsOf(CELL).filter((it) => /^(?:workloads|subjectaccess|validating)/.test(it))).toEqual(
      [],
    );
    expect(permissionsOf(CELL)).not.toContain("workloaddeployments: create delete");
  });

  it("let a single cluster create deployments, and ask whether a user may use a network", () => {
    expect(permissionsOf({ mode: "single" })).toEqual(
      expect.arrayContaining([
        "workloads: list watch patch",
        "workloaddeployments: create delete",
        "subjectaccessreviews: create",
      ]),
    );
  });

  const MANAGEMENT = { mode: "management", hub: { kubeconfig: "h" }, projects: { kubeconfigs: [PROJECT] } };

  it("let a hub look after Cells and Withdrawals, and touch Workloads and deployments only where it is said to", () => {
    const apart = permissionsOf(MANAGEMENT);
    expect(apart).toEqual([
      "cells: list watch patch",
      "cells/status: patch",
      "withdrawals: list watch create delete",
      "namespaces: get list watch",
      "leases: list",
      "secrets: list watch",
      "leases: get update",
    ]);
    const project = permissionsOf({ ...MANAGEMENT, projects: "self" });
    expect(project).toContain("workloads: list watch patch");
    expect(project).not.toContain("namespaces: create");
    const hub = permissionsOf({ ...MANAGEMENT, hub: "self" });
    expect(hub).toEqual(
      expect.arrayContaining(["namespaces: create", "instances: list watch create patch delete"]),
    );
    expect(hub.filter((it) => it.startsWith("workloads"))).toEqual([]);
  });

  it("2.8 let a cell write its Instances to a hub, and nothing else there", () => {
    expect(namesOf(planeRules["write-back"])).toEqual([
      "workloaddeployments: list watch",
      "instances: list watch create patch delete",
      "instances/status: patch",
      "namespaces: get list watch",
      "leases: list",
      "events: create patch",
    ]);
    const cell = permissionsOf({ ...CELL, networking: "Off", hub: { kubeconfig: "hub" } });
    expect(cell.filter((it) => it.startsWith("namespaces"))).toEqual(["namespaces: get"]);
  });

  it("let a hub write policies, and read what Karmada does, only with the driver karmada", () => {
    const karmada = permissionsOf({ ...MANAGEMENT, hub: "self", driver: "karmada" });
    const direct = permissionsOf({ ...MANAGEMENT, hub: "self" });
    expect(karmada.filter((it) => !direct.includes(it))).toEqual([
      "propagationpolicies: list watch create patch delete",
      "resourcebindings: list watch",
      "clusters: list watch",
      "resourceinterpretercustomizations: list watch create patch",
    ]);
    expect(permissionsOf({ ...MANAGEMENT, driver: "karmada" })).not.toContain("clusters: list watch");
  });

  it("let a hub answer admission where Workloads are in its own cluster, and ask nothing about users", () => {
    // Twice: for Workloads, and for documents.
    const asked = [...new Set(permissionsOf({ ...MANAGEMENT, projects: "self" }))];
    expect(asked.filter((it) => /^(?:subjectaccess|validating)/.test(it))).toEqual([
      "validatingwebhookconfigurations: list watch",
      "validatingwebhookconfigurations: create patch delete",
    ]);
  });

  it("let a hub in a cell write deployments, and no Instance, Pod or existing namespace", () => {
    expect(namesOf(planeRules.cell)).toEqual([
      "workloaddeployments: get list watch create patch delete",
      "instances: list watch",
      "namespaces: get list watch",
      "namespaces: create",
    ]);
    expect(namesOf(cellHomeRules)).toEqual(["leases: list"]);
  });

  it.each([
    ["pods, with an external provider", { ...CELL, provider: "external" }, /^pods/],
    [
      "networks, with networking off",
      { ...CELL, networking: "Off" },
      /^(?:locations|network|subnet(?:s|claims))/,
    ],
    ["claims, without quota", CELL, /^resourceclaims/],
    [
      "claims here, with a quota service elsewhere",
      { ...CELL, quota: { from: "Projects", kubeconfig: "quota" } },
      /^resourceclaims/,
    ],
    ["namespaces, without quota and networks", { ...CELL, networking: "Off" }, /^namespaces/],
  ])("name no %s", (_what, spec, resources) => {
    expect(permissionsOf(spec).filter((it) => resources.test(it))).toEqual([]);
  });

  const single = { mode: "single", cities: ["DFW"] };
  it.each([
    ["berth", CELL, "compute-cell-dfw-01", true],
    // The hub knows no installation of a cell.
    ["berth-second", CELL, "compute-cell-dfw-01", true],
    ["berth", single, "compute-single", false],
    ["berth-second", single, "compute-single.berth-second", false],
  ])(
    "name the Lease of the mode, the cell and the installation alone: %s %o",
    (name, fleet, lease, isOfAll) => {
      const documents = { documentsOf: () => [], specOf: () => fleetKind.spec.parse(fleet) as never };
      const asked = fleetPermissions({ name, documents, flags: new Set() });
      const leases = asked.filter(({ rule }) => rule.resources?.includes("leases"));
      expect(leases.map(({ rule }) => rule.resourceNames)).toEqual([[lease]]);
      expect(isFleetLease(lease, name)).toBe(true);
      expect(isFleetLease(lease, "berth-other")).toBe(isOfAll);
      for (const other of [name, "compute-other", "berth-webhook"])
        expect(isFleetLease(other, name)).toBe(false);
    },
  );
});
