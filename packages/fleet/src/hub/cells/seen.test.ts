import { describe, expect, it } from "vitest";
import { aTemplate } from "../../deployment/testing/fixtures.ts";
import { AWAY, aCell, going, onHub } from "../testing/fixtures.ts";
import { isFullWith, mayEnd } from "./seen.ts";

describe("a Cell that is being deleted", () => {
  const cell = (state: object): ReturnType<typeof aCell> => {
    const seen = aCell("a", state);
    return { ...seen, cell: { ...seen.cell, metadata: { name: "a", ...going } } };
  };

  it.each([
    ["ends when it has nothing", cell({}), false, false, true],
    ["stays while a placement names it", cell({}), true, false, false],
    ["stays while it has a deployment", cell({}), false, true, false],
    ["stays while it does not answer", cell({ state: AWAY }), false, false, false],
    ["ends when it was given up", cell({ state: AWAY, spec: { forgotten: true } }), false, true, true],
    [
      "stays until all that was placed there is elsewhere",
      cell({ state: AWAY, spec: { forgotten: true } }),
      true,
      true,
      false,
    ],
    ["ends only then", aCell("a"), false, false, false],
  ])("%s", (_, seen, isNamed, hasDeployments, expected) => {
    expect(mayEnd({ seen, isNamed, hasDeployments })).toBe(expected);
  });
});

it.each<[string, number, number, boolean]>([
  ["few", 10, 100, false],
  ["as many Instances as half of what is read", 10, 1_000, true],
  ["as many bytes of templates as half of what is read", 40, 0, true],
])("a cell is full with %s", (_, count, min, expected) => {
  const template = min === 0 ? aTemplate("x".repeat(1024 * 1024)) : aTemplate("app:1");
  const one = onHub({ min, template });
  expect(isFullWith(Array.from({ length: count }, () => one))).toBe(expected);
});
