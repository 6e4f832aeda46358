import path from "node:path";
import { toStructuralSchema, withRules } from "@berth/host";
import type { JSONSchemaProps } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import * as z from "zod";
import { crds, customKinds } from "./crd.ts";

/** What kubectl apply can take: the last applied document goes into an annotation of at most 256 KiB. */
const MAX_DOCUMENT_BYTES = 200_000;

/** Paths of the fields of a schema without a description. What items and values of maps are, is said of their field. */
function undescribed({ properties = {}, items, additionalProperties }: JSONSchemaProps): readonly string[] {
  const fields = Object.entries(properties).flatMap(([name, field]) => {
    const inner = undescribed(field).map((it) => `.${name}${it}`);
    return field.description ? inner : [`.${name}`].concat(inner);
  });
  const within = [items, additionalProperties].flatMap((it) =>
    typeof it === "object" ? undescribed(it as JSONSchemaProps) : [],
  );
  return [...fields, ...within];
}

describe("crds", () => {
  it.each(crds().map((crd) => ({ crd, plural: crd.spec.names.plural })))(
    "$plural is as reviewed",
    async ({ plural, crd }) => {
      const text = stringify(crd, { version: "1.1", lineWidth: 0, aliasDuplicateObjects: false });
      await expect(text).toMatchFileSnapshot(path.join(import.meta.dirname, "testdata", `${plural}.yaml`));
    },
  );

  it("each fit into what kubectl apply can take", () => {
    for (const crd of crds()) expect(JSON.stringify(crd).length).toBeLessThan(MAX_DOCUMENT_BYTES);
  });

  it("say of every field what it is, for kubectl explain", () => {
    const bare = crds().flatMap(({ spec }) =>
      spec.versions.flatMap(({ schema }) =>
        undescribed(schema?.openAPIV3Schema ?? {}).map((field) => `${spec.names.plural}${field}`),
      ),
    );
    expect(bare).toEqual([]);
  });

  it("share no name", () => {
    const names = customKinds.flatMap(({ resource: { plural, kind }, singular, shortNames }) =>
      [plural, kind, singular].concat(shortNames),
    );
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("toStructuralSchema", () => {
  it("keeps what constrains a value, and leaves out what a CRD cannot have", () => {
    const schema = z.strictObject({
      name: z.string().min(1).regex(/^a+$/).describe("A name."),
      mode: z.literal("On"),
      share: z.number().min(0).max(1),
      big: z.int(),
      few: z.int32().min(2).default(3),
      tags: z.array(z.string()).readonly().optional(),
      byKey: z.record(z.string(), z.string().max(9)).optional(),
    });
    expect(toStructuralSchema(schema)).toEqual({
      type: "object",
      required: ["name", "mode", "share", "big"],
      properties: {
        name: { type: "string", minLength: 1, pattern: "^a+$", description: "A name." },
        mode: { type: "string", enum: ["On"] },
        share: { type: "number", minimum: 0, maximum: 1 },
        big: { type: "integer", format: "int64" },
        few: { type: "integer", format: "int64", minimum: 2, maximum: 2_147_483_647, default: 3 },
        tags: { type: "array", "x-kubernetes-list-type": "atomic", items: { type: "string" } },
        byKey: { type: "object", additionalProperties: { type: "string", maxLength: 9 } },
      },
    });
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
