import { describe, expect, it } from "vitest";
import { isAllowedKey, labelOptionsSchema } from "./config.ts";

describe("options of the label rules", () => {
  it("allow no reserved key by default", () => {
    expect(labelOptionsSchema.parse({})).toEqual({ allowReserved: [], format: "Plain" });
    expect(isAllowedKey("kubernetes.io/x", { allowReserved: [] })).toBe(false);
    expect(isAllowedKey("example.com/x", { allowReserved: [] })).toBe(true);
  });

  it.each(["node-role.kubernetes.io", "node-role.kubernetes.io/edge", "k8s.io"])("accept %s", (entry) => {
    expect(labelOptionsSchema.safeParse({ allowReserved: [entry] }).success).toBe(true);
  });

  it("report every bad entry at once, each with its place", () => {
    const parsed = labelOptionsSchema.safeParse({
      allowReserved: ["example.com", "k8s.io", "k8s.io/a/b"],
      typo: 1,
    });
    expect(parsed.error?.issues.map(({ path }) => path.join("."))).toEqual([
      "allowReserved.0",
      "allowReserved.2",
      "",
    ]);
  });
});
