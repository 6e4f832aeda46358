import { describe, expect, it } from "vitest";
import { invalidFootprints, validFootprints } from "../api/testing/node-footprint-cases.ts";
import { nodeFootprintSpec } from "./document.ts";

describe("the schema of NodeFootprint", () => {
  it.each(validFootprints)("takes $what, and adds nothing", ({ spec }) => {
    expect(nodeFootprintSpec.parse(spec)).toEqual(spec);
  });

  it.each(invalidFootprints)("refuses $what at $field", ({ spec, field }) => {
    const issues = nodeFootprintSpec.safeParse(spec).error?.issues ?? [];
    const fields = issues.flatMap((issue) => {
      const path = issue.path.map(String);
      const keys = issue.code === "unrecognized_keys" ? issue.keys : [undefined];
      return keys.map((key) => ["spec", ...path, ...(key === undefined ? [] : [key])].join("."));
    });
    expect(fields).toContain(field);
  });

  it("F-E17 refuses the removed way to wait with a hint", () => {
    const { error } = nodeFootprintSpec.safeParse({
      preset: "gpu",
      wait: { inject: "ServerSideApply", port: 9 },
    });
    expect(error?.issues).toMatchObject([
      { path: ["wait", "inject"], message: "ServerSideApply was removed: use Webhook" },
    ]);
  });

  it("leaves room for a uid behind a prefix", () => {
    const tried = (name: string) =>
      nodeFootprintSpec.safeParse({
        preset: "csi",
        node: { claims: { annotationPrefix: `example.com/${name}` } },
      });
    expect(tried("p".repeat(27)).success).toBe(true);
    expect(tried("p".repeat(28)).error?.issues[0]?.message).toContain("leaves no room for a uid");
    expect(tried("_").success).toBe(false);
  });
});
