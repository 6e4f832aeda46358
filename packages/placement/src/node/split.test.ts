import { describe, expect, it } from "vitest";
import type { Change } from "./change.ts";
import type { MarkId } from "./mark.ts";
import { splitRefused } from "./writer.ts";

const change = (capability: string, id: MarkId): Change => ({
  id,
  capability,
  action: "add",
  rule: "made-up/rule",
  after: "1",
  reason: "RuleMatched",
});
const parts = (changes: readonly Change[]): string[][] =>
  splitRefused(changes).map((part) => part.map(({ id }) => id));

describe("splitting a refused write", () => {
  const mixed = [change("b", "label/1"), change("a", "label/2"), change("b", "label/3")];

  it("sends each capability alone, in order of name", () => {
    expect(parts(mixed)).toEqual([["label/2"], ["label/1", "label/3"]]);
  });

  it("halves what one capability wants", () => {
    const five = [1, 2, 3, 4, 5].map((n) => change("a", `label/${n}`));
    expect(parts(five)).toEqual([
      ["label/1", "label/2", "label/3"],
      ["label/4", "label/5"],
    ]);
  });

  it("finds the single offender", () => {
    expect(parts([change("a", "label/1")])).toEqual([]);
  });
});
