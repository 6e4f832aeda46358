import { describe, expect, it } from "vitest";
import type { Change } from "./change.ts";
import {
  assessFights,
  CONTESTED_MS,
  type Fights,
  nameRival,
  noFights,
  noteWritten,
  WINDOW_MS,
} from "./fights.ts";

const set: Change = {
  id: "label/x",
  action: "overwrite",
  capability: "a",
  rule: "made-up/rule",
  before: "theirs",
  after: "ours",
  reason: "ValueRestored",
};
const removed: Change = { ...set, action: "remove", reason: "InputGone", entry: null };

/** Writes the change whenever it may, each time it is reverted; says at which times it was held. */
function fight(
  times: readonly number[],
  change: Change = set,
): { held: number[]; started: number[]; fights: Fights } {
  let fights = noFights;
  const held: number[] = [];
  const started: number[] = [];
  for (const now of times) {
    const assessed = assessFights(fights, [change], now);
    fights = assessed.fights;
    if (assessed.started.length > 0) started.push(now);
    if (assessed.held.has(change.id)) held.push(now);
    else fights = noteWritten(fights, [change], now);
  }
  return { held, started, fights };
}

describe("fights over a place", () => {
  it("are noticed when it was reverted three times in a minute", () => {
    expect(fight([0, 1000, 2000, 3000])).toMatchObject({ held: [3000], started: [3000] });
  });

  it("are not noticed when the reverts are further apart", () => {
    expect(fight([0, 30_000, 60_000, 90_000, 120_000]).held).toEqual([]);
  });

  it("are left for five minutes, tried once, and left again when that is reverted too", () => {
    const again = 3000 + CONTESTED_MS;
    const times = [0, 1000, 2000, 3000, 10_000, again - 1, again, again + 100, again + 200];
    const { held, started } = fight(times);
    expect(held).toEqual([3000, 10_000, again - 1, again + 100, again + 200]);
    expect(started).toEqual([3000, again + 100]);
  });

  it("are forgotten after five quiet minutes", () => {
    const again = 3000 + CONTESTED_MS;
    const later = again + 1 + CONTESTED_MS;
    const times = [0, 1000, 2000, 3000, again + 1, later, later + 1, later + 2];
    expect(fight(times).held).toEqual([3000]);
  });

  it("say when to look again", () => {
    const { fights } = fight([0, 1, 2, 3]);
    expect(assessFights(fights, [set], 1003).recheckAfterMs).toBe(CONTESTED_MS - 1000);
  });

  it("count the pruning of an exclusive place too", () => {
    const { entry: _entry, ...rest } = removed;
    const prune: Change = { ...rest, reason: "ExclusiveKeyPruned" };
    expect(fight([0, 1, 2, 3], prune).started).toEqual([3]);
  });

  it.each<[string, (turn: number) => Change]>([
    ["want a mark and do not, in turn", (turn) => (turn % 2 === 0 ? set : removed)],
    [
      "want something else while what stands is what was written last",
      (turn) => ({ ...set, before: `value-${turn}`, after: `value-${turn + 1}` }),
    ],
  ])("are not what our own rules cause that %s", (_what, changeAt) => {
    let fights = noFights;
    for (let turn = 0; turn < 20; turn++) {
      const assessed = assessFights(fights, [changeAt(turn)], turn * 1000);
      expect(assessed.held.size).toBe(0);
      fights = noteWritten(assessed.fights, [changeAt(turn)], turn * 1000);
    }
  });

  it("take no memory once nothing was written for a minute", () => {
    const { fights } = fight([0]);
    expect(assessFights(fights, [], WINDOW_MS).fights.size).toBe(0);
  });

  it("remember the rival", () => {
    const { fights } = fight([0, 1, 2, 3]);
    expect(assessFights(nameRival(fights, "label/x", "nfd"), [set], 10).held.get("label/x")).toBe("nfd");
    expect(nameRival(noFights, "label/x", "nfd")).toBe(noFights);
  });
});
