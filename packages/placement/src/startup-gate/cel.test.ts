/** Whether the API server means the same by these expressions is shown in `admission.cluster.test.ts`. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gatedCel, standsCel, toleratedCel } from "./cel.ts";
import { gateList } from "./testing/gate-list.ts";

/** One string literal of CEL (cel-spec, `STRING_LIT` without prefix and in double quotes), in ASCII. */
const LITERAL = /"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*"/g;

const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom('"', "\\", "\n", "'", "}", ")", "|", "u", "\ud800", "😀", "\0") }),
);

describe("texts of a gate", () => {
  it("never become part of an expression, whatever a gate says", () => {
    const skeletonOf = (text: string): string => {
      const { gates } = gateList({
        a: {
          taint: { key: text, value: text },
          nodeSelector: {
            matchLabels: { [text]: text },
            matchExpressions: [
              { key: text, operator: "In", values: [text] },
              { key: text, operator: "NotIn", values: [text, text] },
              { key: text, operator: "Exists" },
              { key: text, operator: "DoesNotExist" },
            ],
          },
          admissionExcept: { matchLabels: { [text]: text } },
        },
      });
      const expressions = gates.flatMap((gate) => [
        gatedCel(gate),
        standsCel(gate.spec.taint),
        toleratedCel(gate.spec.taint),
      ]);
      return expressions.join("\n").replace(LITERAL, "''");
    };
    const harmless = skeletonOf("a");
    fc.assert(
      fc.property(anyText, (text) => {
        expect(skeletonOf(text)).toBe(harmless);
      }),
    );
  });
});

describe("the expression of a gate", () => {
  it("about every node says so", () => {
    const [gate] = gateList({ all: { controlPlane: "Include" } }).gates;
    expect(gate && gatedCel(gate)).toBe("true");
    const [none] = gateList({ none: { controlPlane: "Include", admissionExcept: {} } }).gates;
    expect(none && gatedCel(none)).toBe("!(true)");
  });
});
