import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import { aCell, aFound, going, onHub } from "../../hub/testing/fixtures.ts";
import type { CellMembers } from "./cell-members.ts";
import { cellStatuses } from "./cells.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";

const { signal } = new AbortController();
const context = { signal, log: { info: () => undefined } } as unknown as ReconcileContext;
const members = { problemOf: () => undefined } as unknown as CellMembers;
const seen = aCell("a");

it.each([
  ["ends with a deployment that this hub did not make", { annotations: {} }, [[]]],
  ["waits for one that it made", {}, []],
])("a Cell that is being deleted %s", async (_, metadata, expected) => {
  const { cells, inCell, parts, patches } = hubWorld();
  cells.set({ ...seen.cell, metadata: { name: "a", finalizers: ["berth.dev/cell"], ...going } });
  const { deployment } = aFound(seen);
  inCell.set({ ...onHub(), metadata: { ...deployment.metadata, ...metadata } });
  await cellStatuses(parts, members)({ cluster: hub, namespace: "", name: "a" }, context);
  expect(patches.flatMap(({ metadata: of }) => (of?.finalizers ? [of.finalizers] : []))).toEqual(expected);
});
