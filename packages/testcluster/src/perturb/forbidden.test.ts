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
    const [head = "", ...pairs] = text.split(" ");
    const [author, step = "start"] = head.split("/").toReversed();
    const labels = Object.fromEntries(pairs.map((pair) => pair.split("=")));
    const object = aNode("n1").labelled(labels).build();
    const type = before === undefined ? "ADDED" : "MODIFIED";
    const by = author as Author;
    const entry: HistoryEntry = { step, type, resource: nodes, name: "n1", object, before, by, at: 0 };
    before = object;
    return entry;
  });
}

it.each<[string, number, readonly string[]]>([
  ["one that comes and goes", 1, ["story", "controller a=1", "controller"]],
  ["one that goes and comes back", 1, ["story a=1", "controller", "controller a=1"]],
  ["one whose value goes and comes back", 1, ["story a=1", "controller a=2", "controller a=1"]],
  ["none when a user came between", 0, ["story", "controller a=1", "story a=1 b=1", "controller b=1"]],
  ["none when a step came between", 0, ["story", "controller a=1", "rules/controller"]],
  ["one when only the harness came between", 1, ["story", "controller a=1", "harness a=1", "controller"]],
])("a label that flaps is %s", (_what, count, versions) => {
  expect(flaps(historyOf(...versions))).toHaveLength(count);
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
    for (const type of ["MODIFIED", "DELETED"]) {
      const entry = { ...made, type, object, before: made?.object, by: "controller" } as HistoryEntry;
      expect(foreignTouched([entry], isOurs)).toHaveLength(1);
    }
  });
});

it("tells a history in lines that say who changed what", () => {
  const lines = describeHistory(historyOf("story", `comes/controller a=${"x".repeat(99)}`));
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/^comes: MODIFIED nodes n1 @ by controller: label a: none → "x{60}"…$/);
});
