import { expect, it } from "vitest";
import { RecentMap } from "./recent-map.ts";

it("forgets what was not asked for the longest, and says what", () => {
  const forgotten: string[] = [];
  const map = new RecentMap<string, string>(2, (value) => forgotten.push(value));
  map.set("a", "1");
  map.set("b", "2");
  expect(map.get("a")).toBe("1");
  map.set("c", "3");
  expect(forgotten).toEqual(["2"]);
  expect([map.get("a"), map.get("b"), map.get("c"), map.size]).toEqual(["1", undefined, "3", 2]);
  map.delete("a");
  expect([...map.values()]).toEqual(["3"]);
});
