import type { Pod } from "@berth/kube";
import { isRuleKnown, type MarkId, reasons } from "@berth/placement";
import { aNode, aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { documents, kind, rules, type Savers } from "./capability.ts";

const NOTE: MarkId = "annotation/quiet.saver.test/night";
const TAINT: MarkId = "taint/saver.test/night:NoSchedule";
const RULE = "cluster/night";
const SINCE = Date.parse("2026-01-01T00:00:00Z");
const MINUTE = 60_000;

const batch = aPod("batch").labelled({ tier: "batch" }).build();
const web = aPod("web").build();
const spec = kind.spec.parse({ podLabel: { key: "tier", value: "batch" } });

function compiled(known: Partial<Parameters<typeof documents.compile>[0]> = {}): Savers {
  const cluster = {
    documents: [{ name: "night", annotations: {}, spec }],
    unreadable: [],
    objects: new Map(),
  };
  const sources = [{ source: "cluster" as const, ...cluster }];
  return documents.compile({
    sources,
    cluster: undefined,
    unsettled: undefined,
    before: undefined,
    ...known,
  });
}

/** @param noted since when the record says that the node is quiet. */
function decide(
  running: readonly Pod[] | undefined,
  noted: string | undefined,
  now: number,
  savers = compiled(),
) {
  const recorded = { capability: rules.name, rule: RULE, since: noted ?? "", by: "berth" };
  const owned = new Map(noted === undefined ? [] : [[NOTE, recorded] as const, [TAINT, recorded] as const]);
  const decision = rules.decide({ node: aNode("n").build(), owned, running }, savers, now);
  const { marks, keep, outcomes, recheckAfterMs, findings } = decision;
  const phases = (outcomes ?? []).map(({ phase }) => phase);
  return { marks: marks.map(({ id }) => id), keep: [...keep.keys()], phases, recheckAfterMs, findings };
}

describe("decide", () => {
  const noted = "2026-01-01T00:00:00Z";
  it.each([
    ["one of other pods", [batch, web], noted, 9, { marks: [], keep: [], phases: [] }],
    [
      "quiet from now on",
      [batch],
      undefined,
      0,
      { marks: [NOTE], phases: ["quiet"], recheckAfterMs: 10 * MINUTE },
    ],
    [
      "quiet for a while",
      [batch],
      noted,
      4,
      { marks: [NOTE], phases: ["quiet"], recheckAfterMs: 6 * MINUTE },
    ],
    [
      "quiet for long",
      [batch],
      noted,
      10,
      { marks: [NOTE, TAINT], phases: ["saving"], recheckAfterMs: undefined },
    ],
    ["without pods for long", [], noted, 11, { marks: [NOTE, TAINT], phases: ["saving"], findings: [] }],
    ["of unknown pods", undefined, noted, 20, { marks: [], keep: [NOTE, TAINT], phases: ["saving"] }],
    ["of unknown pods, without marks", undefined, undefined, 20, { marks: [], keep: [], phases: [] }],
  ])("a node %s", (_, running, since, minutes, expected) => {
    expect(decide(running, since, SINCE + minutes * MINUTE)).toMatchObject(expected);
  });

  it("says when the taint comes", () => {
    const [finding] = decide([batch], noted, SINCE + 4 * MINUTE).findings;
    expect(finding).toMatchObject({ reason: reasons.NotStable, subject: TAINT });
    expect(finding?.message).toContain("in 360 s");
  });

  it("removes the marks of a deleted document also while no pods are read, and keeps those of a faulty one", () => {
    const none = { source: "cluster" as const, documents: [], objects: new Map() };
    const deleted = compiled({ sources: [{ ...none, unreadable: [] }] });
    expect(decide(undefined, noted, SINCE, deleted)).toMatchObject({ marks: [], keep: [] });
    const faulty = compiled({ sources: [{ ...none, unreadable: [{ name: "night", message: "no" }] }] });
    expect(isRuleKnown(faulty.policy, RULE)).toBe(false);
    expect(isRuleKnown(deleted.policy, RULE)).toBe(true);
  });

  it("a document in a file takes over the marks of one of its name", () => {
    const found = [{ name: "night", annotations: {}, spec }];
    const of = (source: "config" | "cluster") => ({ source, documents: found });
    const both = compiled({ sources: [of("config"), of("cluster")] });
    expect(both.faults).toMatchObject([{ source: "cluster", reason: "PowerSaverInvalid" }]);
    expect(decide([batch], noted, SINCE, both)).toMatchObject({ marks: [NOTE], keep: [] });
    expect(decide([web], noted, SINCE, both)).toMatchObject({ marks: [], keep: [] });
  });
});
