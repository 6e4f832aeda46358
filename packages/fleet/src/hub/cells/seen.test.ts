import { describe, expect, it } from "vitest";
import { AWAY, aCell, going } from "../testing/fixtures.ts";
import { mayEnd } from "./seen.ts";

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
    ["ends when it was given up", cell({ state: AWAY, spec: { forgotten: true } }), true, true, true],
    ["ends only then", aCell("a"), false, false, false],
  ])("%s", (_, seen, isNamed, hasDeployments, expected) => {
    expect(mayEnd({ seen, isNamed, hasDeployments })).toBe(expected);
  });
});
