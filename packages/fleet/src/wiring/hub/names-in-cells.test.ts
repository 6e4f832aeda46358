import { type DesiredCondition, findCondition, type ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { Cell } from "../../api/cell.ts";
import { aCell } from "../../hub/testing/fixtures.ts";
import type { CellMembers } from "./cell-members.ts";
import { cellStatuses } from "./cells.ts";
import { namesInCells } from "./names-in-cells.ts";
import { a, hub, hubWorld } from "./testing/hub-world.ts";

const { signal } = new AbortController();
const context = { signal, log: { info: () => undefined } } as unknown as ReconcileContext;
const members = { problemOf: () => undefined, expiresMsOf: () => undefined } as unknown as CellMembers;
const OWN = "compute-cell-a";
const UNHEARD_MS = 16_000;

/** Leases by name, with their versions: of the first look, and of the second. */
it.each<[string, object, object, string]>([
  ["it runs under another name", { "compute-cell-b": "1" }, { "compute-cell-b": "2" }, "WrongCellName"],
  [
    "it ran so before",
    { [OWN]: "1", "compute-cell-b": "1" },
    { [OWN]: "1", "compute-cell-b": "1" },
    "NotRunning",
  ],
  ["it does not run", {}, {}, "NotRunning"],
  ["it has just begun", { [OWN]: "1" }, { [OWN]: "2" }, "NotRunning"],
  ["another fleet runs there", { "compute-single": "1" }, { "compute-single": "2" }, "NotRunning"],
])(
  "WrongCellName is told where Berth renews the Lease of another cell: %s",
  async (_, first, second, reason) => {
    const { clock, cells, parts, patches } = hubWorld();
    const { cell } = aCell("a");
    cells.set({ ...cell, spec: { ...cell.spec, namespace: "elsewhere" } as NonNullable<Cell["spec"]> });
    await clock.advance(UNHEARD_MS);
    const looks = [first, second];
    const namespaces: unknown[] = [];
    Object.assign(parts.planes.cells.get(a)?.client ?? {}, {
      list(_resource: object, { namespace }: { readonly namespace: string }) {
        namespaces.push(namespace);
        const found = Object.entries(looks.shift() ?? {});
        return { items: found.map(([name, resourceVersion]) => ({ metadata: { name, resourceVersion } })) };
      },
    });
    const reconcile = namesInCells(parts, { end: () => undefined });
    const key = { cluster: a, namespace: "", name: "a" };
    const told: unknown[] = [];
    for (const _look of [1, 2]) {
      expect(await reconcile(key, context)).toEqual({ recheckAfterMs: 5_000 });
      await cellStatuses(parts, members)({ cluster: hub, namespace: "", name: "a" }, context);
      const statuses = patches.flatMap(
        (it) => (it as { status?: { conditions: DesiredCondition[] } }).status ?? [],
      );
      told.push(findCondition(statuses.at(-1)?.conditions as never, "Reachable")?.reason);
    }
    expect([namespaces, told]).toEqual([
      ["elsewhere", "elsewhere"],
      ["NotRunning", reason],
    ]);
  },
);
