import { describe, expect, it } from "vitest";
import {
  aCell,
  aHubNamespace,
  aPlacement,
  aSource,
  aWithdrawal,
  counts,
  going,
  onHub,
} from "../../hub/testing/fixtures.ts";
import { HubAsk } from "./ask.ts";
import { a, hubWorld } from "./testing/hub-world.ts";

it.each([
  ["connected", "a"],
  ["not connected", "b"],
])("a Cell that is being deleted, and %s, is looked at when its last deployment goes", (_, name) => {
  const { cells, deployments, asked } = hubWorld();
  const { cell } = aCell(name);
  cells.set({ ...cell, metadata: { ...cell.metadata, ...going } });
  const placed = onHub({ placed: aPlacement(name) });
  deployments.set(placed);
  asked.length = 0;
  deployments.delete(placed);
  expect(asked).toContain(`cells hub//${name}`);
});

describe("a deployment of a project whose namespace the hub does not have", () => {
  const withoutNamespace = () => {
    const world = hubWorld();
    world.hubNamespaces.delete(aHubNamespace());
    return world;
  };

  it("is looked at when its Withdrawal is stored, for which it waits at its end", () => {
    const { withdrawals, asked } = withoutNamespace();
    asked.length = 0;
    withdrawals.set(aWithdrawal("a"));
    expect(asked).toContain("federator hub/default/w-us-dfw");
  });

  it("is looked at when the namespace goes: it has to be made again", () => {
    const { asked } = withoutNamespace();
    expect(asked).toContain("federator hub/default/w-us-dfw");
  });
});

it("the numbers of a Cell that was removed by force are looked at", () => {
  const { cells, deployments, asked } = hubWorld();
  const { cell } = aCell("a");
  cells.set(cell);
  deployments.set(onHub());
  asked.length = 0;
  cells.delete(cell);
  expect(asked).toContain("placements hub/ns-U/w-us-dfw");
});

it("a deployment is looked at when the labels of its namespace in a cell are corrected", () => {
  const { deployments, namespacesInCell, asked } = hubWorld();
  deployments.set(onHub());
  namespacesInCell.set({ metadata: { name: "ns-U" } });
  asked.length = 0;
  namespacesInCell.set({ metadata: { name: "ns-U", labels: { right: "" } } });
  expect(asked).toContain("carry a/ns-U/w-us-dfw");
});

describe("an Instance that a project shows, and that hub and cell have no more,", () => {
  const shown = {
    metadata: {
      namespace: "default",
      name: "w-us-dfw-0",
      ownerReferences: [
        { apiVersion: "v1", kind: "WorkloadDeployment", name: "w-us-dfw", uid: "source-uid" },
      ],
    },
  };

  it("is looked at when its cell is read", () => {
    const { cells, deployments, projections, parts, asked } = hubWorld();
    cells.set(aCell("a").cell);
    deployments.set(onHub());
    projections.set(shown);
    asked.length = 0;
    new HubAsk(parts).cell(a);
    expect(asked).toContain("projector hub/default/w-us-dfw-0");
  });

  it("is looked at when its deployment goes", () => {
    const { sources, projections, asked } = hubWorld();
    projections.set(shown);
    asked.length = 0;
    sources.delete(aSource());
    expect(asked).toContain("projector hub/default/w-us-dfw-0");
  });
});

it("a deployment that waits until all cells of its city are read is looked at when any of them changes", () => {
  const { cells, deployments, asked } = hubWorld();
  const stale = { type: "Stale", status: "True", reason: "CellsNotRead", message: "" } as const;
  const conditions = [{ ...stale, lastTransitionTime: "2026-01-01T00:00:00Z" }];
  deployments.set(onHub({ status: counts(2, { conditions }) }));
  asked.length = 0;
  cells.set(aCell("b").cell);
  expect(asked).toContain("placements hub/ns-U/w-us-dfw");
});

it("a deployment that leaves its cell is looked at when another one of its city changes, and so is its Cell", () => {
  const { cells, deployments, asked } = hubWorld();
  cells.set(aCell("a", { spec: { drain: true } }).cell);
  deployments.set(onHub());
  asked.length = 0;
  cells.set(aCell("b").cell);
  expect(asked).toContain("placements hub/ns-U/w-us-dfw");
  asked.length = 0;
  deployments.delete(onHub());
  expect(asked).toContain("cells hub//a");
});

it("what a project has is asked for when all of its kinds are read, and each once", () => {
  const { sources, projections, asked } = hubWorld();
  const ofSource = (): readonly string[] => asked.filter((it) => it === "federator hub/default/w-us-dfw");
  projections.isRead = false;
  sources.read();
  asked.length = 0;
  sources.read(aSource());
  expect(ofSource()).toEqual([]);
  projections.read();
  expect(ofSource()).toHaveLength(1);
  // Read anew, as after its watch has expired: what changed meanwhile is not told one by one.
  sources.read(aSource());
  expect(ofSource()).toHaveLength(2);
});

it("Workloads of a project are looked at though its Instances are never read", () => {
  const { workloads, sources, projections, asked } = hubWorld();
  projections.isRead = false;
  workloads.read({ metadata: { namespace: "default", name: "w" } });
  asked.length = 0;
  sources.read(aSource());
  expect(asked).toContain("workloads hub/default/w");
});
