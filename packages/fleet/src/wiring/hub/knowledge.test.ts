import { expect, it } from "vitest";
import { aCell, aHubNamespace, aPlacement, aSource, HUB, onHub, SOURCE } from "../../hub/testing/fixtures.ts";
import { a, hub, hubWorld } from "./testing/hub-world.ts";

const place = { namespace: "ns-U", name: "w-us-dfw" };

it("a source that the view of its project lacks is gone once that is proven", () => {
  const { parts, sources } = hubWorld();
  expect(parts.know.source(place, SOURCE)).toBe("live");
  expect([parts.know.source(place, "other"), parts.know.isUnproven(place, "other")]).toEqual([
    "unknown",
    true,
  ]);
  // A cell must not end what a project wants.
  parts.memory.absent(a, "other");
  expect(parts.know.source(place, "other")).toBe("unknown");
  parts.memory.absent(hub, "other");
  expect([parts.know.source(place, "other"), parts.know.isUnproven(place, "other")]).toEqual(["gone", false]);
  // Its deletion was seen.
  sources.delete(aSource());
  expect(parts.know.source(place, SOURCE)).toBe("gone");
});

it("a source is neither gone nor looked for when the labels of its namespace on the hub were edited", () => {
  const { parts, hubNamespaces, deployments } = hubWorld();
  deployments.set(onHub());
  hubNamespaces.set(aHubNamespace({ "meta.datumapis.com/upstream-namespace": "other" }, HUB));
  expect(parts.know.source(place, SOURCE)).toBe("unknown");
  expect(parts.know.isUnproven(place, SOURCE)).toBe(false);
});

it("what was of a cell that was given up is looked at for the cell that replaces it", () => {
  const { parts, cells, deployments } = hubWorld();
  cells.set(aCell("a").cell);
  deployments.set(onHub({ placed: aPlacement("a", { epoch: 2, start: 1000, lost: [0] }) }));
  expect(parts.know.cellOfCopy({ ...place, name: "w-us-dfw-0" })).toBe("a");
});
