import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { celText } from "./cel.ts";

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
