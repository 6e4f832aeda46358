import { describe, expect, it } from "vitest";
import { MOST_NAMED } from "../../api/cell.ts";
import { aCell, aFound, aHubNamespace, aPlacement, onHub } from "../../hub/testing/fixtures.ts";
import { a, hubWorld } from "./testing/hub-world.ts";

const cell = aCell("a");
const PLACE = { namespace: "ns-U", name: "w-us-dfw" };
const orphan = { ...PLACE, sourceUid: "lost", epoch: 1, start: 0, of: "acme/web/default/w-us-dfw" };

/** A cell with a deployment that the hub made for a source which its project does not have. */
function worldWith({ source = "lost" } = {}) {
  const world = hubWorld();
  world.cells.set(cell.cell);
  world.inCell.set(aFound(cell, { source }).deployment);
  const { strays, know } = world.parts;
  const look = async () => {
    strays.noteAll();
    await world.clock.advance(1_000);
    return strays.look(know.cellOf(a) ?? cell);
  };
  return { ...world, look };
}

describe("a deployment in a cell that nothing stands for", () => {
  it("is named, with what it was in its project, and reported once", async () => {
    const { look, recorded } = worldWith();
    expect(await look()).toEqual({ count: 1, names: [orphan] });
    expect(await look()).toEqual({ count: 1, names: [orphan] });
    expect(recorded).toEqual(["Orphaned"]);
  });

  it("is known by its namespace in the cell, where the hub has none", async () => {
    const { look, hubNamespaces, namespacesInCell } = worldWith();
    hubNamespaces.delete(aHubNamespace());
    expect(await look()).toBeUndefined();
    namespacesInCell.set(aHubNamespace());
    expect(await look()).toEqual({ count: 1, names: [orphan] });
  });

  it("is held when a later placement is known", async () => {
    const { look, deployments } = worldWith({ source: "source-uid" });
    deployments.set(onHub({ placed: aPlacement("b", { epoch: 2 }) }));
    expect(await look()).toEqual({ count: 1, names: [{ ...orphan, sourceUid: "source-uid", held: true }] });
  });

  it("is none that the project wants, or that says only that it is of this hub", async () => {
    expect(await worldWith({ source: "source-uid" }).look()).toBeUndefined();
    const { look, inCell, recorded } = worldWith();
    const { deployment } = aFound(cell, { metadata: { annotations: { "berth.dev/epoch": "9" } } });
    inCell.set(deployment);
    expect([await look(), recorded]).toEqual([undefined, ["Forged"]]);
  });

  it("stays as it was told while the cell, the hub or its project is not read", async () => {
    const { look, cells, sources, recorded } = worldWith();
    const told = { count: 1, names: [orphan] };
    cells.set({ ...cell.cell, status: { orphans: told } });
    sources.isRead = false;
    expect([await look(), recorded]).toEqual([told, []]);
  });

  it("is told of when it is that of its project again", async () => {
    const { look, inCell, recorded } = worldWith();
    await look();
    inCell.set(aFound(cell).deployment);
    expect([await look(), recorded]).toEqual([undefined, ["Orphaned", "Adopted"]]);
  });

  it("is named as one of many, in their order", async () => {
    const { look, inCell } = worldWith();
    const many = MOST_NAMED + 5;
    for (let at = 0; at < many; at += 1) {
      const { deployment } = aFound(cell, { source: "lost", name: `w-${at}` });
      inCell.set(deployment);
    }
    const { count, names = [] } = (await look()) ?? {};
    expect([count, names.length, names[1]?.name]).toEqual([many + 1, MOST_NAMED, "w-1"]);
  });

  it("has its cell looked at again when it comes, once a second at most", async () => {
    const { look, inCell, parts, clock } = worldWith();
    const { strays } = parts;
    const key = { cluster: a, ...PLACE };
    await look();
    strays.note(key, cell);
    expect(strays.due).toEqual([]);
    inCell.set(aFound(cell).deployment);
    strays.note(key, cell);
    expect([strays.due, strays.look(cell)?.count]).toEqual([[a], 1]);
    await clock.advance(1_000);
    expect([strays.look(cell), strays.due]).toEqual([undefined, []]);
  });
});
