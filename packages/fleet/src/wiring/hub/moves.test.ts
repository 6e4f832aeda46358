import { createVirtualClock, type ObjectKey, toKeyText } from "@berth/runtime";
import { expect, it } from "vitest";
import { aCondition } from "../../deployment/testing/fixtures.ts";
import { aCell, aPlacement, counts, onHub } from "../../hub/testing/fixtures.ts";
import { Moves } from "./moves.ts";
import { hub } from "./testing/hub-world.ts";

const keyOf = (name: string): ObjectKey => ({ cluster: hub, namespace: "ns-U", name });
const [w0, w1, w2] = ["w0", "w1", "w2"].map(keyOf) as [ObjectKey, ObjectKey, ObjectKey];
const drained = aCell("a", { spec: { drain: true } });

function setup(atOnce = 2) {
  const clock = createVirtualClock();
  const moving = new Set<string>();
  const know = {
    movingTo: () => moving,
    hubKey: ({ name }: { name: string }) => keyOf(name),
    cells: [drained, aCell("b")],
  };
  const moves = new Moves({ clock, know, limits: () => ({ atOnce, timeout: "10m" }) });
  const facts = (name = "w0", placement = aPlacement(), cell = drained) =>
    moves.facts(onHub(), placement, {
      place: { namespace: "ns-U", name },
      cells: [cell],
      choose: () => ({ is: "none", reason: "NoOtherCell", message: "", verdicts: [] }),
    });
  const mayBegin = (name: string): boolean => facts(name).mayBegin();
  return { clock, moving, moves, facts, mayBegin };
}

it("no more begin than may move at once, in the order in which they asked", () => {
  const { moving, moves, mayBegin } = setup();
  expect(["w0", "w1", "w2"].map(mayBegin)).toEqual([true, true, false]);
  moves.begins(w0);
  // What was begun counts before its hub shows it.
  expect([mayBegin("w2"), mayBegin("w1")]).toEqual([false, true]);
  moves.begins(w1);
  expect(moves.due()).toEqual([]);
  moving.add(toKeyText(w0));
  moves.looked(w0, false);
  expect(moves.due()).toEqual([]);
  moving.delete(toKeyText(w0));
  expect(moves.due()).toEqual([w2]);
  // It does not want to move any more.
  moves.looked(w2, false);
  expect(moves.due()).toEqual([]);
});

it("a move that took too long rests for an hour, or until its cell is drained again", async () => {
  const { clock, moves, facts } = setup();
  moves.rests(onHub(), drained);
  expect(facts().restsForMs).toBe(3_600_000);
  const again = { ...drained, cell: { ...drained.cell, metadata: { name: "a", generation: 3 } } };
  expect(facts("w0", aPlacement(), again).restsForMs).toBe(0);
  await clock.advance(3_600_000);
  expect(facts().restsForMs).toBe(0);
});

it("a drain of a hub that was restored waits until its cell is drained again, also for another process", () => {
  const { moves, facts } = setup();
  expect(facts().isUnconfirmed).toBe(false);
  moves.suspect();
  expect(facts().isUnconfirmed).toBe(true);
  const again = { ...drained, cell: { ...drained.cell, metadata: { name: "a", generation: 3 } } };
  expect(facts("w0", aPlacement(), again).isUnconfirmed).toBe(false);
  const told = aCondition("Moving", "False", "DrainUnconfirmed");
  const [placed, place] = [aPlacement(), { namespace: "ns-U", name: "w0" }];
  const waiting = onHub({ status: { ...counts(2), conditions: [told] } });
  const choose = () => ({ is: "none", reason: "NoOtherCell", message: "", verdicts: [] }) as const;
  const { isUnconfirmed } = setup().moves.facts(waiting, placed, { place, cells: [drained], choose });
  expect(isUnconfirmed).toBe(true);
});

it("a reading counts for ten seconds, and for one move to one spec", async () => {
  const { clock, moves, facts } = setup();
  const next = { cell: "b", uid: "uid-b", epoch: 2, start: 1000 };
  const placement = aPlacement("a", { next, last: 2 });
  moves.confirmed(onHub(), placement);
  expect(facts("w0", placement)).toMatchObject({ isConfirmed: true, forMs: 0, timeoutMs: 600_000 });
  expect(facts("w0", { ...placement, next: { ...next, epoch: 3 }, last: 3 }).isConfirmed).toBe(false);
  await clock.advance(10_000);
  expect(facts("w0", placement)).toMatchObject({ isConfirmed: false, forMs: 10_000 });
});
