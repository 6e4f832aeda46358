import { expect, it } from "vitest";
import { aHubNamespace, aSource, HUB, onHub, SOURCE } from "../../hub/testing/fixtures.ts";
import { hubWorld } from "./testing/hub-world.ts";

const place = { namespace: "ns-U", name: "w-us-dfw" };

it("a source that the view of its project lacks is gone once that is proven", () => {
  const { parts, sources } = hubWorld();
  expect(parts.know.source(place, SOURCE)).toBe("live");
  expect([parts.know.source(place, "other"), parts.know.isUnproven(place, "other")]).toEqual([
    "unknown",
    true,
  ]);
  parts.memory.absent("other");
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
