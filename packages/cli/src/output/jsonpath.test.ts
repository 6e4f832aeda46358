import { describe, expect, it } from "vitest";
import { parseJsonPath } from "./jsonpath.ts";

const DATA = {
  cells: [
    { name: "a", city: "ams", labels: { "x.dev/y": "1", z: "2" } },
    { name: "b", city: "fra", ready: false, none: null },
  ],
  count: 2,
};

describe("a template of -o jsonpath", () => {
  it.each([
    ["{.count}", "2"],
    ["{$.count}", "2"],
    ["{.cells[*].name}", "a b"],
    ["{.cells.*.name}", "a b"],
    ["{.cells[0].city}", "ams"],
    ["{.cells[-1].city}", "fra"],
    ["{.cells[0].labels['x.dev/y']}", "1"],
    ["{.cells[0].labels.x\\.dev/y}", "1"],
    ["{.cells[0].labels}", '{"x.dev/y":"1","z":"2"}'],
    ["{.cells[1].ready}{.cells[1].none}", "falsenull"],
    ["{.cells[9].name}{.missing.field}{.count.length}", ""],
    ['{range .cells[*]}{.name}={.city}{"\\n"}{end}', "a=ams\nb=fra\n"],
    ["{range  .cells[*]}{range .labels.*}{@}{end}{end}", "12"],
    ['{"\\t\\"a\\""}', '\t"a"'],
    ['{.cells[?(@.name=="b")].city}', "fra"],
    ["{.cells[?(@.ready==false)].city}{.cells[?(@.name=='c')].city}", "fra"],
    ["{.}", JSON.stringify(DATA)],
    ["there are {.count}", "there are 2"],
  ])("%s", (template, expected) => {
    expect(parseJsonPath(template)(DATA)).toBe(expected);
  });

  it.each([
    "",
    ".count",
    "{.cells[?(@.count>1)]}",
    "{.cells[0:1]}",
    "{..name}",
    '{"a".b}',
    '{b"a"}',
    "{.cells[*]",
    "{range .cells[*]}{.name}",
    "{.name}{end}",
    "{name}",
    "{.a.}",
  ])("%j is refused", (template) => {
    expect(() => parseJsonPath(template)).toThrow(SyntaxError);
  });

  it.each([
    ["{range .a}", "{range} without {end}"],
    ["{end}", "{end} without {range}"],
    ["{.a..b}", "..b is not supported"],
    [".a", "expected paths in braces"],
  ])("%j is refused with what is wrong", (template, message) => {
    expect(() => parseJsonPath(template)).toThrow(message);
  });
});
