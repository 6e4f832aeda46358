import * as fc from "fast-check";
import { expect, it } from "vitest";
import { textDiff } from "./text-diff.ts";

it.each([
  ["a\nb\nc", "a\nc\nd", [" a", "-b", " c", "+d"]],
  ["", "a", ["+a"]],
  ["a", "", ["-a"]],
  ["a", "a", []],
])("from %j to %j", (before, after, expected) => {
  expect(textDiff(before, after)).toEqual(expected);
});

const texts = fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 8 });

it("holds both texts, whole and in order", () => {
  fc.assert(
    fc.property(texts, texts, (before, after) => {
      const lines = textDiff(before.join("\n"), after.join("\n"));
      const side = (sign: string) => lines.filter((it) => it[0] !== sign).map((it) => it.slice(1));
      const isSame = before.join() === after.join();
      expect([side("+"), side("-")]).toEqual(isSame ? [[], []] : [before, after]);
    }),
  );
});

it("shows very long texts whole, without a table as large as their product", () => {
  const long = Array.from({ length: 3000 }, (_, at) => `${at}`).join("\n");
  expect(textDiff(long, "x")).toHaveLength(3001);
});
