import { describe, expect, it } from "vitest";
import { plainFootprint } from "../testing/footprints.ts";
import type { AgentProblem } from "./check.ts";
import { ManageProblems } from "./manage-problems.ts";

const FOOTPRINT = plainFootprint("f", { podSelector: {} });
const UID = "0a1b2c3d-0000-4000-8000-0123456789ab";

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
  it.each<[string, string, string]>([
    ["a time", "denied by deny-v1 at 12:01", "denied by deny-v1 at 12:06:07.5"],
    ["a date", "denied (2026-01-02T12:01:00Z)", "denied (2026-01-03T04:05:06.789+01:00)"],
    ["a duration", "denied after 3ms", "denied after 1m2.5s"],
    ["a version", "denied at version 104223.", "denied at version 104391."],
    ["a uid", `denied, request ${UID}`, `denied, request ${UID.replaceAll("0", "f")}`],
    ["the id of a trace", "trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace 00f067aa0ba902b7a3ce929d0e0e4736"],
  ])("is the same refusal where the server says another one of %s", (_, first, next) => {
    const { problems, asked } = known("WriteRefused", [first, next]);
    expect(asked).toEqual([FOOTPRINT.rule]);
    expect(problems.of(FOOTPRINT)?.message).toBe(first);
  });

  it.each<[string, AgentProblem["reason"], string, string]>([
    ["another policy refuses it", "WriteRefused", "denied by policy a", "denied by policy b"],
    ["its name has digits", "WriteRefused", "denied by policy deny-v1", "denied by policy quota-9"],
    ["it is numbered", "WriteRefused", "denied by rule 12", "denied by rule 13"],
    ["its name ends in many digits", "WriteRefused", "denied by deny-20251", "denied by deny-20252"],
    ["its name is a version", "WriteRefused", "denied by v1.30005", "denied by v1.30006"],
    ["its name ends in a uid", "WriteRefused", `denied by a-${UID}`, `denied by b-${UID}`],
    ["two others share it", "AgentShared", "pool-1 and pool-2", "pool-1 and pool-3"],
    ["they are named like times", "AgentShared", "12345 and 23456", "12345 and 34567"],
  ])("is another one where %s", (_, reason, first, next) => {
    const { problems, asked } = known(reason, [first, next]);
    expect(asked).toHaveLength(2);
    expect(problems.of(FOOTPRINT)?.message).toBe(next);
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
