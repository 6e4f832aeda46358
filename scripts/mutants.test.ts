import { expect, it } from "vitest";
import { changedLines, summaryOf } from "./mutants.ts";

it("takes from a diff the new lines of sources, and not what was only removed", () => {
  const diff = [
    "+++ b/packages/fleet/src/a.ts",
    "@@ -1,2 +1 @@ export",
    "@@ -9,0 +10,3 @@",
    "@@ -20,2 +22,0 @@",
    "+++ b/packages/fleet/src/a.test.ts",
    "@@ -1 +1 @@",
    "+++ b/scripts/b.ts",
    "@@ -1 +1 @@",
  ];
  expect(changedLines(diff)).toEqual(["packages/fleet/src/a.ts:1-1", "packages/fleet/src/a.ts:10-12"]);
});

const FILE = "packages/a/src/a.ts";
const at = (line: number, from: number, to: number) => ({
  start: { line, column: from },
  end: { line, column: to },
});

it("names survivors by line, counts them by file and folder, and leaves out what means the same program", () => {
  const mutants = [
    { status: "Killed", replacement: "c", location: at(1, 1, 2) },
    { status: "Timeout", replacement: "d", location: at(1, 1, 2) },
    { status: "Survived", replacement: "y", location: at(2, 5, 6) },
    { status: "NoCoverage", replacement: "z", location: at(2, 5, 6) },
    { status: "Survived", replacement: "same", location: at(2, 5, 6) },
    { status: "Ignored", replacement: "static", location: at(1, 1, 2) },
    { status: "CompileError", replacement: "!", location: at(1, 1, 2) },
  ];
  const report = { files: { [FILE]: { source: "a\nif (x)", mutants } } };
  const same = { file: FILE, code: "x", replacement: "same", why: "it is the same" };
  expect(summaryOf(report, [same])).toEqual([
    `${FILE}:2 x → y`,
    `${FILE}:2 no test reaches it: x → z`,
    " 50.0 %        2 of 4  packages/a/src",
    ` 50.0 %        2 of 4  ${FILE}`,
  ]);
});
