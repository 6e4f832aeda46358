import { describe, expect, it } from "vitest";
import { readYaml } from "./yaml.ts";

const valueOf = (text: string): unknown => readYaml(text).documents[0]?.value;

describe("readYaml, against what kubectl reads (sigs.k8s.io/yaml)", () => {
  it.each([
    ["a: yes", { a: true }],
    ["a: on", { a: true }],
    ["a: Off", { a: false }],
    ['a: "yes"', { a: "yes" }],
    ["a: 0777", { a: 511 }],
    ["a: 0o777", { a: 511 }],
    ["a: 1_000", { a: 1000 }],
    ["a: 0x1F", { a: 31 }],
    ["a: 1:30", { a: "1:30" }],
    ["a: 190:20:30", { a: "190:20:30" }],
    ["a: 2026-11-21", { a: "2026-11-21" }],
    ["a: 2026-11-21T10:00:00Z", { a: "2026-11-21T10:00:00Z" }],
    ["n: x", { false: "x" }],
    ["a: ~", { a: null }],
    ["base: &b {x: 1}\na:\n  <<: *b\n  z: 2", { base: { x: 1 }, a: { x: 1, z: 2 } }],
    ['{"a": [1, "b"]}', { a: [1, "b"] }],
  ])("%j", (text, expected) => {
    expect(valueOf(text)).toEqual(expected);
  });

  it("leaves empty documents out", () => {
    const { documents, problems } = readYaml("---\n# nothing\n---\na: 1\n---\n");
    expect(documents.map(({ value }) => value)).toEqual([{ a: 1 }]);
    expect(problems).toEqual([]);
  });

  it("tells every fault with its place, and still reads the other documents", () => {
    const { documents, problems } = readYaml("a: 1\na: 2\n---\nb: [1\n---\nc: 3\n");
    expect(documents.map(({ value }) => value)).toEqual([{ c: 3 }]);
    expect(problems).toEqual([
      expect.objectContaining({ line: 2, column: 1 }),
      expect.objectContaining({ line: 5, column: 1 }),
    ]);
  });

  it("refuses a few bytes that stand for gigabytes", () => {
    const levels = Array.from({ length: 9 }, (_, i) => `a${i}: &a${i} [${`*a${i - 1},`.repeat(9)}]`).slice(1);
    const { documents, problems } = readYaml(["a0: &a0 [x,x]", ...levels].join("\n"));
    expect(documents).toEqual([]);
    expect(problems).toHaveLength(1);
  });

  it("finds values, keys, and the map around what is missing", () => {
    const [document] = readYaml("# head\nspec:\n  path: labels\n  list:\n    - one\n    - two\n").documents;
    expect(document?.positionOf(["spec", "path"])).toEqual({ line: 3, column: 9 });
    expect(document?.positionOf(["spec", "list", 1])).toEqual({ line: 6, column: 7 });
    expect(document?.positionOf(["spec", "missing"])).toEqual({ line: 3, column: 3 });
    expect(document?.positionOfKey(["spec"], "list")).toEqual({ line: 4, column: 3 });
    expect(document?.positionOfKey([], "spec")).toEqual({ line: 2, column: 1 });
  });
});
