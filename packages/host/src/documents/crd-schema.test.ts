import { describe, expect, it } from "vitest";
import * as z from "zod";
import { toStructuralSchema } from "./crd-schema.ts";
import { quantity, withRules } from "./schema.ts";

describe("toStructuralSchema", () => {
  it("keeps what constrains a value, and leaves out what a CRD cannot have", () => {
    const schema = z.strictObject({
      name: z.string().min(1).regex(/^a+$/).describe("A name."),
      mode: z.literal("On"),
      share: z.number().min(0).max(1),
      big: z.int(),
      few: z.int32().min(2).default(3),
      any: z.int32().meta({ format: "int32" }),
      size: quantity,
      tags: z.array(z.string()).readonly().optional(),
      byKey: z.record(z.string(), z.string().max(9)).optional(),
    });
    expect(toStructuralSchema(schema)).toEqual({
      type: "object",
      required: ["name", "mode", "share", "big", "any", "size"],
      properties: {
        name: { type: "string", minLength: 1, pattern: "^a+$", description: "A name." },
        mode: { type: "string", enum: ["On"] },
        share: { type: "number", minimum: 0, maximum: 1 },
        big: { type: "integer", format: "int64" },
        few: { type: "integer", format: "int64", minimum: 2, maximum: 2_147_483_647, default: 3 },
        any: { type: "integer", format: "int32" },
        size: { "x-kubernetes-int-or-string": true, pattern: expect.any(String) as string },
        tags: { type: "array", "x-kubernetes-list-type": "atomic", items: { type: "string" } },
        byKey: { type: "object", additionalProperties: { type: "string", maxLength: 9 } },
      },
    });
  });

  it.each([1, 1.5, "1", "500m", "2Gi", "-1", ".5", "1e3", "1E-3"])("takes %s as a quantity", (value) => {
    expect(quantity.parse(value)).toBe(value);
  });

  it.each(["", "much", "2 Gi", "1.2.3", "1KB", true, null])("takes %s as no quantity", (value) => {
    expect(quantity.safeParse(value).success).toBe(false);
  });

  it("carries rules over several fields as CEL", () => {
    const rule = {
      cel: "self.a < self.b",
      holds: ({ a, b }: { readonly a: number; readonly b: number }) => a < b,
      message: "a must be less",
    };
    const schema = withRules(z.strictObject({ a: z.number(), b: z.number() }), [rule]);
    expect(toStructuralSchema(schema)["x-kubernetes-validations"]).toEqual([
      { rule: "self.a < self.b", message: "a must be less" },
    ]);
    expect(schema.safeParse({ a: 2, b: 1 }).error?.issues[0]?.message).toBe("a must be less");
  });

  it("refuses what a CRD cannot say, with the place", () => {
    const schema = z.strictObject({ list: z.array(z.union([z.string(), z.number()])) });
    expect(() => toStructuralSchema(schema)).toThrow(".list[]: a CRD has no anyOf");
  });
});
