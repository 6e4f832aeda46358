/** Whether the API server means the same by these expressions is shown in `gate/admission-objects.cluster.test.ts`. */
import { describe, expect, it } from "vitest";
import { selectorCel } from "./cel.ts";

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
