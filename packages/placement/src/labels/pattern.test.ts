import { describe, expect, it } from "vitest";
import { compilePattern, type Pattern } from "./pattern.ts";

function pattern(source: string): Pattern {
  const compiled = compilePattern(source);
  if (typeof compiled === "string") throw new Error(compiled);
  return compiled;
}

describe("patterns", () => {
  it.each([
    ["Ubuntu", "Ubuntu 24.04.1 LTS", true],
    ["^24", "Ubuntu 24.04", false],
    ["04$", "Ubuntu 24.04", true],
    ["(?i)ubuntu", "UBUNTU", true],
    ["^$", "", true],
    ["^\\d{2}\\.\\d{2}$", "24.04", true],
    [".", "\n", false],
  ])("%s in %j: %s", (source, text, expected) => {
    expect(pattern(source).test(text)).toBe(expected);
  });

  it.each([
    ["Ubuntu (\\d+)", "Ubuntu 24.04", "24"],
    ["\\d+\\.\\d+", "Ubuntu 24.04", "24.04"],
    ["(a)|(b)", "b", undefined],
    ["(?:x)(y)(z)", "xyz", "y"],
    ["(?P<major>\\d+)\\.", "24.04", "24"],
    ["(z*)", "abc", ""],
    ["nope", "abc", undefined],
  ])("%s takes from %j: %s", (source, text, expected) => {
    expect(pattern(source).capture(text)).toBe(expected);
  });

  it.each(["(", "[a", "a**", "(?=a)", "(a)\\1", "(?<!a)b", "\\", "a{1001}", "((a{100}){100}){100}"])(
    "refuses %s and says that it is no pattern",
    (source) => {
      expect(compilePattern(source)).toMatch(/^not a regular expression \(RE2\): (?!error parsing)/);
    },
  );

  it("takes time in proportion to the text, whatever the pattern", () => {
    const evil = `${"a".repeat(4095)}!`;
    for (const source of ["^(a+)+$", "(a|aa)+$", "(.*)*x$", `^(${"[a-z]*".repeat(80)})$`]) {
      // A backtracking matcher would not finish while the universe lasts.
      expect(pattern(source).test(evil)).toBe(false);
    }
  }, 30_000);

  it("looks at the first 4096 UTF-16 units of a text", () => {
    const text = `${"a".repeat(4095)}bc`;
    expect(pattern("b").test(text)).toBe(true);
    expect(pattern("c").test(text)).toBe(false);
    expect(pattern("a*(b|c)c?$").capture(text)).toBe("b");
  });

  it("keeps nothing from one text to the next", () => {
    const same = pattern("(a)");
    expect([same.test("a"), same.test("b"), same.capture("a"), same.capture("b")]).toEqual([
      true,
      false,
      "a",
      undefined,
    ]);
  });
});
