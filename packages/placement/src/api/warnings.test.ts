import { expect, it } from "vitest";
import { SILENCE_ANNOTATION, silencing, warn } from "./warnings.ts";

const of = (codes?: string) => ({
  rule: "config/a",
  ...silencing({ annotations: codes === undefined ? {} : { [SILENCE_ANNOTATION]: codes } }),
});
const warning = { code: "GateNeverOpens", rule: "config/a", message: "why" } as const;

it("a document names the warnings that it silences, with commas and blanks between", () => {
  expect(warn(of(), "GateNeverOpens", "why")).toEqual([warning]);
  expect(warn(of("FootprintUnneeded, RuleLabelsNothing"), "GateNeverOpens", "why")).toEqual([warning]);
  expect(warn(of("FootprintUnneeded, GateNeverOpens ,x"), "GateNeverOpens", "why")).toEqual([]);
  expect(warn(of(), "GateNeverOpens", undefined)).toEqual([]);
});

it("adds nothing to a document without the annotation", () => {
  expect(silencing({})).toEqual({});
  expect(silencing({ annotations: { other: "x" } })).toEqual({});
});
