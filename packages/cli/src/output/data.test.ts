import { readYaml } from "@berth/host";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toYaml } from "./data.ts";

describe("toYaml", () => {
  it.each([
    "yes",
    "on",
    "off",
    "n",
    "y",
    "true",
    "null",
    "~",
    "0777",
    "1_000",
    "1:30",
    "0x1f",
    "1e3",
    "2026-11-21",
    "=",
  ])("writes the text %s so that kubectl reads a text", (text) => {
    expect(readYaml(toYaml({ labels: { [text]: text } })).documents[0]?.value).toEqual({
      labels: { [text]: text },
    });
  });

  it("reads back what it wrote, whatever the texts", () => {
    const value = fc.dictionary(
      fc.string({ minLength: 1 }),
      fc.oneof(fc.string(), fc.boolean(), fc.integer()),
    );
    fc.assert(
      fc.property(value, (data) => {
        // `__proto__` cannot be told from the prototype in plain data, and `<<` is YAML's own key for merging.
        fc.pre(!Object.hasOwn(data, "__proto__") && !("<<" in data) && Object.keys(data).length > 0);
        expect(readYaml(toYaml(data)).documents[0]?.value).toEqual({ ...data });
      }),
    );
  });

  it("does not fold long lines", () => {
    expect(toYaml({ message: "word ".repeat(60).trim() }).split("\n")).toHaveLength(2);
  });
});
