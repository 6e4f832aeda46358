import { describe, expect, it } from "vitest";
import { reasonList, reasons } from "./reasons.ts";

describe("reasons", () => {
  it("are PascalCase, named like their constant, and short enough for an Event", () => {
    for (const [name, reason] of Object.entries(reasons)) {
      expect(reason).toBe(name);
      expect(reason).toMatch(/^[A-Z][A-Za-z]{2,63}$/);
    }
  });

  it("are all explained for the reference documentation", () => {
    expect(reasonList.map(({ reason }) => reason)).toEqual(Object.keys(reasons));
    for (const { meaning } of reasonList) expect(meaning).toMatch(/^.{20,}\.$/);
  });
});
