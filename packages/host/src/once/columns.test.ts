import { styleText } from "node:util";
import { describe, expect, it } from "vitest";
import { displayWidth, formatColumns } from "./columns.ts";

describe("formatColumns", () => {
  it("aligns columns and leaves nothing at the end of a line", () => {
    const rows = [
      ["NAME", "AGE", "WHY"],
      ["edge-1", "5m", ""],
      ["n", "", "late"],
    ];
    expect(formatColumns(rows)).toBe("NAME     AGE   WHY\nedge-1   5m\nn              late\n");
  });

  it("takes wide characters and colours for what they are on a terminal", () => {
    const red = styleText("red", "ab", { validateStream: false });
    const rows = [
      ["日本", "x"],
      [red, "y"],
      ["👍", "z"],
    ];
    expect(formatColumns(rows)).toBe(`日本   x\n${red}     y\n👍     z\n`);
  });

  it("indents, and gives nothing for nothing", () => {
    expect(formatColumns([["a", "b"]], "  ")).toBe("  a   b\n");
    expect(formatColumns([])).toBe("");
  });
});

describe("displayWidth", () => {
  it.each([
    ["abc", 3],
    ["", 0],
    ["é", 1],
    ["e\u0301", 1],
    ["한글", 4],
    ["👨‍👩‍👧", 2],
    ["\u001b[31mab\u001b[39m", 2],
  ])("of %j is %i", (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });
});
