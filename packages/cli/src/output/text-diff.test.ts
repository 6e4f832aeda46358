import * as fc from "fast-check";
import { expect, it } from "vitest";
import { textDiff } from "./text-diff.ts";

it.each([
  ["a\nb\nc", "a\nc\nd", [" a", "-b", " c", "+d"]],
  ["", "a", ["+a"]],
  ["a", "", ["-a"]],
  ["a", "a", []],
  ["a\nb", "c\nd", ["-a", "-b", "+c", "+d"]],
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

/** The most lines that both have, in order. */
function commonOf([a, ...before]: readonly string[], after: readonly string[]): number {
  if (a === undefined) return 0;
  const at = after.indexOf(a);
  return Math.max(commonOf(before, after), at < 0 ? 0 : 1 + commonOf(before, after.slice(at + 1)));
}

it("shows as many lines as possible as common", () => {
  fc.assert(
    fc.property(texts, texts, (before, after) => {
      fc.pre(before.join() !== after.join());
      const common = textDiff(before.join("\n"), after.join("\n")).filter((it) => it[0] === " ");
      expect(common).toHaveLength(commonOf(before, after));
    }),
  );
});

it.each([
  [2000, [" 0"]],
  [2001, ["-0", "+0"]],
])(
  "shows texts of more than 2,000 lines whole, without a table as large as their product: %i",
  (length, first) => {
    const long = Array.from({ length }, (_, at) => `${at}`).join("\n");
    const firstOf = (lines: readonly string[]) => lines.filter((it) => it.slice(1) === "0");
    expect(firstOf(textDiff(long, "0"))).toEqual(first);
    expect(firstOf(textDiff("0", long))).toEqual(first);
    expect(textDiff(long, "0")).toHaveLength(length - 1 + first.length);
  },
);
