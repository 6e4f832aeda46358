import { describe, expect, it } from "vitest";
import type { NodeFootprint } from "../../api/node-footprint-resource.ts";
import { reasons } from "../../api/reasons.ts";
import type { HeldEntry } from "./held-owners.ts";
import { decideFootprintStatus, type FootprintProgress, type FootprintStatusInput } from "./status.ts";
import { footprintOf } from "./testing/footprints.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const ready = { ready: true, reason: reasons.FootprintInForce, message: "in force" };
const substrate = footprintOf({ preset: "agent-substrate/pr-134" });
const counts = { labelled: 2, needed: 3, pending: 1, unknown: 0, claims: 4, foreign: 0 };
const progress: FootprintProgress = {
  footprint: substrate,
  counts,
  agent: { unserved: [], problems: [] },
  agentReady: 2,
  held: [],
};

function anEntry(name: string): HeldEntry {
  const message = `a pod: ns/${name}-1 on n1`;
  return {
    name: `ns/${name}`,
    uid: name,
    since: "2026-01-01T00:00:00Z",
    pods: [`ns/${name}-1`],
    nodes: ["n1"],
    message,
    isStuck: false,
  };
}

const decide = (
  more: Partial<FootprintStatusInput> = {},
  object: NodeFootprint = { metadata: { generation: 3 } },
) => decideFootprintStatus({ object, judgement: ready, progress, now: NOW, ...more });

const conditionOf = (type: string, more: Partial<FootprintProgress> = {}) =>
  decide({ progress: { ...progress, ...more } }).status?.conditions?.find((it) => it.type === type);

describe("the status of a footprint", () => {
  it("is not told before its version was looked at", () => {
    expect(decide({ judgement: undefined })).toEqual({ status: undefined, news: [] });
  });

  it("counts, and is settled once written", () => {
    const { status, news } = decide();
    expect(status).toMatchObject({
      observedGeneration: 3,
      nodes: { labelled: 2, pending: 1, agentReady: 2, agentUnschedulable: 0 },
      claims: 4,
      holds: [],
    });
    expect(status?.conditions?.map(({ type, status: is }) => `${type}=${is}`)).toEqual([
      "AgentPlaced=True",
      "OwnersHeld=False",
      "Ready=True",
    ]);
    expect(news).toEqual([]);
    if (status === undefined) throw new Error("no status");
    expect(decide({}, { metadata: { generation: 3 }, status })).toEqual({ status: undefined, news: [] });
  });

  it("keeps what was counted before while it cannot be told", () => {
    const status = { nodes: { labelled: 9, agentReady: 9 }, claims: 9 };
    const blind = { ...progress, counts: undefined, agent: undefined, agentReady: undefined };
    expect(decide({ progress: blind }, { status }).status).toMatchObject(status);
  });

  it("names the first five owners whose deletion waits, and for what", () => {
    const held = ["a", "b", "c", "d", "e", "f"].map(anEntry);
    const { status } = decide({ progress: { ...progress, held } });
    expect(status?.holds).toHaveLength(5);
    expect(status?.holds?.[0]).toEqual({
      name: "ns/a",
      uid: "a",
      since: "2026-01-01T00:00:00Z",
      nodes: ["n1"],
      pods: ["ns/a-1"],
    });
    expect(status?.conditions?.find(({ type }) => type === "OwnersHeld")).toMatchObject({
      status: "True",
      reason: reasons.OwnerHeld,
      message: "the deletion of ns/a waits for a pod: ns/a-1 on n1; and 5 more owners, the next ns/b",
    });
  });

  it("says when owners cannot be held at all", () => {
    expect(conditionOf("OwnersHeld", { isHoldAbsent: true })?.message).toBe(
      "workerpools.ate.dev are not there, or may not be read: none is held",
    );
  });

  it("F-B8 names the first node and taint that keep the agent off", () => {
    const unserved = ["n1", "n2"].map((name) => ({
      node: name,
      reason: reasons.AgentUnschedulable,
      message: `cannot run on ${name}: taint x`,
    }));
    const problems = [{ reason: reasons.AgentPriority, message: "no priority" }];
    expect(conditionOf("AgentPlaced", { agent: { unserved, problems } })).toMatchObject({
      status: "False",
      reason: reasons.AgentUnschedulable,
      message: "cannot run on n1: taint x; and 1 more nodes, the next n2",
    });
    expect(conditionOf("AgentPlaced", { agent: { unserved: [], problems } })).toMatchObject({
      status: "True",
      reason: reasons.AgentPriority,
    });
    const everywhere = { reason: reasons.AgentEverywhere, message: "everywhere" };
    expect(
      conditionOf("AgentPlaced", { agent: { unserved: [], problems: [...problems, everywhere] } }),
    ).toMatchObject({
      status: "False",
      reason: reasons.AgentEverywhere,
    });
  });

  it("F-B3 tells of foreign marks where they are reported", () => {
    const reporting = footprintOf({ preset: "agent-substrate/pr-134", node: { foreign: "Report" } });
    const more = { footprint: reporting, counts: { ...counts, foreign: 2 } };
    expect(conditionOf("ForeignMarks", more)).toMatchObject({
      status: "True",
      reason: reasons.ForeignFootprintMark,
    });
    expect(conditionOf("ForeignMarks", { footprint: reporting })).toMatchObject({ status: "False" });
    expect(conditionOf("ForeignMarks")).toBeUndefined();
    const { news } = decide({ progress: { ...progress, ...more } });
    expect(news.map(({ type }) => type)).toEqual(["ForeignMarks"]);
  });

  it("says no more of what a changed document does not do any more", () => {
    const { status } = decide();
    if (status === undefined) throw new Error("no status");
    const invalid = { ready: false, reason: reasons.FootprintInvalid, message: "a fault" };
    const after = decide(
      { judgement: invalid, progress: undefined },
      { metadata: { generation: 4 }, status },
    );
    expect(after.status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
    expect(after.news.map(({ reason }) => reason)).toEqual([reasons.FootprintInvalid]);
    const plain = footprintOf({
      workloads: [{ requests: ["x.test/y"] }],
      node: { label: { key: "x.test/a" } },
    });
    const other = decide(
      { progress: { ...progress, footprint: plain } },
      { metadata: { generation: 4 }, status },
    );
    expect(other.status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
    const unchecked = footprintOf({ preset: "agent-substrate/pr-134", agent: { nodeSelector: "Off" } });
    const nodes = { labelled: 1, pending: 0, agentReady: 12, agentUnschedulable: 3 };
    const left = decide(
      { progress: { ...progress, footprint: unchecked, agent: undefined, agentReady: undefined } },
      { metadata: { generation: 4 }, status: { ...status, nodes } },
    );
    expect(left.status?.nodes?.agentUnschedulable ?? 0).toBe(0);
    expect(left.status?.nodes?.agentReady ?? 0).toBe(0);
  });

  it("tells when the agent is placed again, and not that an owner waits", () => {
    const problem = { unserved: [], problems: [{ reason: reasons.AgentEverywhere, message: "x" }] };
    const { status, news } = decide({ progress: { ...progress, agent: problem, held: [anEntry("a")] } });
    expect(news.map(({ type }) => type)).toEqual(["AgentPlaced"]);
    if (status === undefined) throw new Error("no status");
    expect(decide({}, { metadata: { generation: 3 }, status }).news).toMatchObject([
      { type: "AgentPlaced", status: "True" },
    ]);
  });
});
