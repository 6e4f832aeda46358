import { type Node, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { aNode } from "../node-builder.ts";
import { describeHistory, flaps, foreignTouched } from "./forbidden.ts";
import type { Author, HistoryEntry } from "./history.ts";
import { NUDGE } from "./stage.ts";

/** Versions of one node as `author label=value`; a step other than `start` stands before the author: `rules/author`. */
function historyOf(...versions: readonly string[]): readonly HistoryEntry[] {
  let before: Node | undefined;
  return versions.map((text) => {
    const [by = "", ...pairs] = text.split(" ");
    const [author = "", step = "start"] = by.split("/").toReversed();
    const labels = Object.fromEntries(pairs.map((pair) => pair.split("=")));
    const object = aNode("n1").labelled(labels).build();
    const type = before === undefined ? "ADDED" : "MODIFIED";
    const entry: HistoryEntry = {
      step,
      type,
      resource: nodes,
      name: "n1",
      object,
      before,
      by: author as Author,
      at: 0,
    };
    before = object;
    return entry;
  });
}

describe("a label that flaps", () => {
  it("is one that the controller sets and takes back though nothing else has changed", () => {
    const history = historyOf("story", "controller a=1", "controller");
    expect(flaps(history)).toHaveLength(1);
  });

  it("is also one that goes and comes back, and one whose value does", () => {
    const gone = historyOf("story a=1", "controller", "controller a=1");
    const changed = historyOf("story a=1", "controller a=2", "controller a=1");
    expect([...flaps(gone), ...flaps(changed)]).toHaveLength(2);
  });

  it("is none when a user or a step came between", () => {
    const user = historyOf("story", "controller a=1", "story a=1 b=1", "controller b=1");
    const step = historyOf("story", "controller a=1", "rules/controller");
    expect([...flaps(user), ...flaps(step)]).toEqual([]);
  });

  it("is one all the same when only the harness came between", () => {
    const history = historyOf("story", "controller a=1", "harness a=1", "controller");
    expect(flaps(history)).toHaveLength(1);
  });
});

describe("a foreign key", () => {
  const isOurs = (_field: string, key: string): boolean => key === "ours";

  it("is touched when the controller changes or removes it", () => {
    const history = historyOf("story team=red ours=1", "controller team=blue", "controller");
    expect(foreignTouched(history, isOurs)).toHaveLength(2);
  });

  it("is not touched by users, nor by changes of what is ours", () => {
    const history = historyOf(
      "story team=red",
      "controller team=red ours=1",
      "story ours=1",
      `harness ours=1 ${NUDGE}=1`,
    );
    expect(foreignTouched(history, isOurs)).toEqual([]);
  });

  it("is anything outside labels and annotations too", () => {
    const [made] = historyOf("story");
    const object = aNode("n1").unschedulable().build();
    const cordoned = {
      ...made,
      type: "MODIFIED",
      object,
      before: made?.object,
      by: "controller",
    } as HistoryEntry;
    const removed = { ...cordoned, type: "DELETED" } as HistoryEntry;
    expect(foreignTouched([cordoned], isOurs)).toHaveLength(1);
    expect(foreignTouched([removed], isOurs)).toHaveLength(1);
  });
});

it("tells a history in lines that say who changed what", () => {
  const lines = describeHistory(historyOf("story", `comes/controller a=${"x".repeat(99)}`));
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/^comes: MODIFIED nodes n1 @ by controller: label a: none → "x{60}"…$/);
});
