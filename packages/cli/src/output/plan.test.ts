import { styleFor } from "@berth/host";
import type { PlanDiff } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { formatPlan } from "./plan.ts";

const plain = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const colour = styleFor({ write: () => undefined, isTerminal: true, columns: 80 });
const NONE = { add: 0, overwrite: 0, remove: 0, adopt: 0, record: 0 };
const recorded = { capability: "labels", rule: "folder/d/e", since: "2026-01-01T00:00:00Z", by: "other" };
const base = { capability: "labels", rule: "folder/a/b" };

const diff: PlanDiff = {
  nodes: [
    {
      node: "edge-1",
      changes: [
        { ...base, id: "label/a/b", action: "add", after: "true", reason: "RuleMatched" },
        {
          ...base,
          id: "label/a/c",
          action: "overwrite",
          before: "x",
          after: "true",
          reason: "ValueRestored",
        },
        { ...base, id: "label/a/longer", action: "remove", before: "true", reason: "InputGone" },
        { ...base, id: "label/z", action: "adopt", before: "true", after: "true", reason: "Adopted" },
      ],
      stays: [{ id: "label/d/e", recorded, reason: "OtherInstallation" }],
      findings: [{ reason: "MarkConflict", severity: "warning", subject: "label/q", message: "two want it" }],
    },
  ],
  looked: 3,
  written: 1,
  totals: { add: 1, overwrite: 1, remove: 1, adopt: 1, record: 0 },
};

describe("formatPlan", () => {
  it("is a diff with a reason on each line", () => {
    expect(formatPlan(diff, plain)).toMatchInlineSnapshot(`
      "node edge-1
        + label/a/b=true        RuleMatched  folder/a/b
        - label/a/c=x
        + label/a/c=true        ValueRestored  folder/a/b
        - label/a/longer=true   InputGone  folder/a/b
        = label/z=true          Adopted  folder/a/b
          label/d/e             stays: OtherInstallation  folder/d/e of other
        ! label/q               MarkConflict: two want it

      1 of 3 nodes would be written: 1 to set, 1 to replace, 1 to remove, 1 to record.
      "
    `);
  });

  it("colours whole lines on a terminal", () => {
    expect(formatPlan(diff, colour)).toContain("\u001b[32m  + label/a/b=true");
  });

  it("says so when there is nothing to do", () => {
    expect(formatPlan({ nodes: [], looked: 1, written: 0, totals: NONE }, plain)).toBe(
      "No changes of nodes: 1 looked at.\n",
    );
  });
});
