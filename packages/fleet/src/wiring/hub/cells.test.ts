import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { Cell } from "../../api/cell.ts";
import { aCondition } from "../../deployment/testing/fixtures.ts";
import { aCell, aFound, aWithdrawal, going, onHub } from "../../hub/testing/fixtures.ts";
import type { CellMembers } from "./cell-members.ts";
import { cellStatuses } from "./cells.ts";
import { a, hub, hubWorld } from "./testing/hub-world.ts";

const { signal } = new AbortController();
const context = { signal, log: { info: () => undefined } } as unknown as ReconcileContext;
const members = { problemOf: () => undefined, expiresMsOf: () => undefined } as unknown as CellMembers;
const seen = aCell("a");
const DAY_MS = 86_400_000;

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

it.each([
  ["is left while it has what is withdrawn from it", true, "Draining"],
  ["is drained although a request for what is withdrawn may come late", false, "Drained"],
])("a Cell %s", async (_, isThere, reason) => {
  const { cells, withdrawals, inCell, parts, patches } = hubWorld();
  const { cell } = aCell("a", { spec: { drain: true } });
  cells.set({ ...cell, metadata: { name: "a", finalizers: ["berth.dev/cell"] } });
  withdrawals.set(aWithdrawal("a"));
  if (isThere) inCell.set(aFound(seen).deployment);
  await cellStatuses(parts, members)({ cluster: hub, namespace: "", name: "a" }, context);
  const { conditions = [] } = (patches.at(-1) as Cell).status ?? {};
  expect(conditions.find(({ type }) => type === "Drained")?.reason).toBe(reason);
});

it("a Cell with more than is read of one says so once, with figures, and nothing is known of it", async () => {
  const { cells, parts, patches } = hubWorld();
  cells.set({ ...seen.cell, metadata: { name: "a", finalizers: ["berth.dev/cell"] } });
  const excess = "it has more than 20000 instances, or more than 64 MiB of them";
  Object.assign(parts.planes.cells.get(a) ?? {}, { excess });
  expect(parts.know.cellOf(a)?.state).toEqual({ is: "away", reason: "CellTooLarge", message: excess });
  const key = { cluster: hub, namespace: "", name: "a" };
  await cellStatuses(parts, members)(key, context);
  expect(patches).toMatchObject([
    {
      status: {
        conditions: [
          { type: "Accepting" },
          { type: "Reachable", status: "False", reason: "CellTooLarge", message: excess },
        ],
      },
    },
  ]);
  cells.set({ ...seen.cell, ...patches[0], metadata: { name: "a", finalizers: ["berth.dev/cell"] } });
  await cellStatuses(parts, members)(key, context);
  expect(patches).toHaveLength(1);
});

it.each([
  ["no end", undefined, undefined],
  ["an end in eight days", 8 * DAY_MS, undefined],
  ["an end in six days", 6 * DAY_MS, "CredentialExpires"],
  ["ended", -1, "CredentialExpired"],
])("a credential that has %s is told of so", async (_, inMs, reason) => {
  const { cells, parts, patches, clock } = hubWorld();
  const told = aCondition("CredentialExpiring", "True", "CredentialExpires");
  const metadata = { name: "a", finalizers: ["berth.dev/cell"] };
  cells.set({ ...seen.cell, metadata, status: { conditions: [told] } });
  const expiresMs = inMs && clock.now() + inMs;
  const ending = { problemOf: () => undefined, expiresMsOf: () => expiresMs } as unknown as CellMembers;
  const next = await cellStatuses(parts, ending)({ cluster: hub, namespace: "", name: "a" }, context);
  const last: Cell | undefined = patches.at(-1);
  const { conditions = [] } = last?.status ?? {};
  expect(conditions.find(({ type }) => type === "CredentialExpiring")?.reason).toBe(reason);
  // A timer takes no more than some weeks.
  expect(next?.recheckAfterMs).toBe(inMs === undefined || inMs < 0 ? undefined : DAY_MS);
});
