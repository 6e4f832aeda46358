/** Whether the API server means the same by these expressions is shown in `gate/admission-objects.cluster.test.ts`. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { celText, selectorCel } from "./cel.ts";

/** One string literal of CEL (cel-spec, `STRING_LIT` without prefix and in double quotes), in ASCII. */
const LITERAL = /"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*"/g;

const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom('"', "\\", "\n", "'", "}", ")", "|", "u", "\ud800", "😀", "\0") }),
);

function read(literal: string): string {
  return literal.slice(1, -1).replace(/\\(?:u(....)|U(........)|(.))/g, (_, short, long, plain) => {
    const digits = (short ?? long) as string | undefined;
    return digits === undefined ? String(plain) : String.fromCodePoint(Number.parseInt(digits, 16));
  });
}

describe("texts in CEL", () => {
  it("are one literal that says the same", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const literal = celText(text);
        expect(literal.match(LITERAL)).toEqual([literal]);
        expect(read(literal)).toBe(text.toWellFormed());
      }),
    );
  });
});

describe("selectors in CEL", () => {
  it("are read as they are written", () => {
    const label = (key: string): string => `object.metadata.?labels[?"${key}"]`;
    expect(selectorCel({})).toEqual([]);
    expect(
      selectorCel({
        matchLabels: { a: "1" },
        matchExpressions: [
          { key: "b", operator: "In", values: ["1", "2"] },
          { key: "c", operator: "NotIn", values: ["1"] },
          { key: "d", operator: "Exists" },
          { key: "e", operator: "DoesNotExist" },
        ],
      }),
    ).toEqual([
      `${label("a")}.optMap(it, it in ["1"]).orValue(false)`,
      `${label("b")}.optMap(it, it in ["1", "2"]).orValue(false)`,
      `!${label("c")}.optMap(it, it in ["1"]).orValue(false)`,
      `${label("d")}.hasValue()`,
      `!${label("e")}.hasValue()`,
    ]);
  });
});
