import { expect, it } from "vitest";
import { anInstance } from "../../deployment/testing/fixtures.ts";
import { onHub } from "../../hub/testing/fixtures.ts";
import { fleetObject } from "../reads.ts";
import { cellInstance } from "./cell-objects.ts";

it.each([
  ["a cell", cellInstance],
  ["the hub", fleetObject as unknown as typeof cellInstance],
])("what the Instances of one deployment have in common is kept once of %s", (_, project) => {
  const deployment = onHub();
  const [one, other] = [0, 1].map((ordinal) => project(structuredClone(anInstance(deployment, ordinal))));
  expect(one?.metadata?.name).not.toBe(other?.metadata?.name);
  expect(one?.metadata?.ownerReferences).toHaveLength(1);
  expect(one?.metadata?.ownerReferences).toBe(other?.metadata?.ownerReferences);
  expect(one?.spec?.controller?.templateHash).toMatch(/^v1-/);
  expect(one?.spec?.controller).toBe(other?.spec?.controller);
});
