import { describe, expect, it } from "vitest";
import { plainFootprint } from "../testing/footprints.ts";
import type { AgentProblem } from "./check.ts";
import { ManageProblems } from "./manage-problems.ts";

const FOOTPRINT = plainFootprint("f", { podSelector: {} });

/** After these have been said, one after the other. `asked`: rules of which something else was to be said. */
function known(
  reason: AgentProblem["reason"],
  messages: readonly string[],
): { readonly problems: ManageProblems; readonly asked: readonly string[] } {
  const asked: string[] = [];
  const problems = new ManageProblems({ onChange: (rule) => asked.push(rule) });
  for (const message of messages) problems.put(FOOTPRINT, { reason, message });
  return { problems, asked };
}

describe("what is in the way of Manage", () => {
  it("is the same refusal whatever the server says of it", () => {
    const { problems, asked } = known("WriteRefused", ["denied at 12:01", "denied at 12:06"]);
    expect(asked).toEqual([FOOTPRINT.rule]);
    expect(problems.of(FOOTPRINT)?.message).toBe("denied at 12:01");
  });

  it("is another one where its reason is", () => {
    const { problems, asked } = known("WriteRefused", ["refused"]);
    problems.put(FOOTPRINT, { reason: "Contested", message: "refused" });
    expect(asked).toHaveLength(2);
    expect(problems.of(FOOTPRINT)?.reason).toBe("Contested");
  });

  it("is forgotten with its footprint, and with the label it was said of", () => {
    const other = plainFootprint(
      "f",
      { podSelector: {} },
      { label: { key: "example.com/other", value: "true" } },
    );
    for (const kept of [[], [other]]) {
      const { problems } = known("WriteRefused", ["refused"]);
      problems.keep([FOOTPRINT]);
      expect(problems.of(FOOTPRINT)?.message).toBe("refused");
      problems.keep(kept);
      problems.keep([FOOTPRINT]);
      expect(problems.of(FOOTPRINT)).toBeUndefined();
    }
  });
});
