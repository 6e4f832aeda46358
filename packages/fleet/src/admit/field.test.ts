import { expect, it } from "vitest";
import { type Fault, type Faults, listed, newFaults, quoted } from "./fault.ts";
import { Field } from "./field.ts";

it("a field counts what is null or inherited as absent, and names its items in its place", () => {
  const field = new Field("", { none: null, list: ["DFW", { name: "x" }, { name: "y".repeat(300) }] });
  expect(["none", "constructor", "list"].map((it) => field.get(it).isSet)).toEqual([false, false, true]);
  const items = field.get("list").items().toArray();
  expect(items.map(({ path }) => path)).toEqual(["list[0]", "list[1]", "list[2]"]);
  expect(items.map(({ place }) => place)).toEqual(["list[DFW]", "list[x]", `list[${"y".repeat(253)}]`]);
});

it.each([
  [undefined, '""'],
  [null, '""'],
  [1, "1"],
  [{}, "{…}"],
  [[], "[…]"],
  ["a".repeat(100), `"${"a".repeat(100)}"`],
  ["a".repeat(101), `"${"a".repeat(100)}…"`],
])("a message shows the value %j as %s", (value, text) => {
  expect(quoted(value)).toBe(text);
});

it("a message lists at most 50 supported values", () => {
  const values = (length: number): string => listed(Array.from({ length }, () => "a"));
  expect([values(0), values(2)]).toEqual(["none", '"a", "a"']);
  expect(values(50)).not.toContain("more");
  expect(values(52)).toMatch(/"a" and 2 more$/);
});

it("faults of the stored object count once each, and endless ones are not all read", () => {
  const fault: Fault = { type: "Invalid", field: "a", message: "m", place: "a", value: 1 };
  const times = function* (count: number): Faults {
    for (let n = 0; n < count; n += 1) yield fault;
  };
  expect([...newFaults(times(3), times(1))]).toHaveLength(2);
  expect([...newFaults(times(2), times(2))]).toEqual([]);
  expect([...newFaults(times(1), times(Number.POSITIVE_INFINITY))]).toEqual([]);
});
