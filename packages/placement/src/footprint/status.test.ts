import { decideStatus } from "@berth/host";
import { describe, expect, it } from "vitest";
import { reasons } from "../api/reasons.ts";
import type { FootprintProgress } from "./conditions.ts";
import type { HeldEntry } from "./hold/held-owners.ts";
import type { NodeFootprint, NodeFootprintStatus } from "./resource.ts";
import { describeFootprint, type FootprintStatusInput } from "./status.ts";
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

/** As the API server keeps it after the merge patch. */
function stored(status: ReturnType<typeof decide>["status"]): NodeFootprintStatus {
  if (status === undefined) throw new Error("no status");
  return JSON.parse(JSON.stringify(status), (_, value: unknown) => value ?? undefined) as NodeFootprintStatus;
}

const decide = (
  more: Partial<FootprintStatusInput> = {},
  object: NodeFootprint = { metadata: { generation: 3 } },
) => decideStatus(object, describeFootprint({ object, result: ready, progress, ...more }), NOW);

const conditionOf = (type: string, more: Partial<FootprintProgress> = {}) =>
  decide({ progress: { ...progress, ...more } }).status?.conditions?.find((it) => it.type === type);

describe("the status of a footprint", () => {
  it("counts, and is settled once written", () => {
    const { status, news } = decide();
    expect(status).toMatchObject({
      observedGeneration: 3,
      nodes: { labelled: 2, pending: 1, unknown: 0, agentReady: 2, agentUnschedulable: 0 },
      claims: 4,
      holds: [],
    });
    expect(status?.conditions?.map(({ type, status: is }) => `${type}=${is}`)).toEqual([
      "AgentPlaced=True",
      "OwnersHeld=False",
      "Ready=True",
    ]);
    expect(news).toEqual([]);
    const settled = { metadata: { generation: 3 }, status: stored(status) };
    expect(decide({}, settled)).toMatchObject({ status: undefined, news: [] });
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

  it("says when owners are not there, and of a missing right which it is, with what waits as well", () => {
    const refused = "list workerpools.ate.dev: refused";
    expect(conditionOf("OwnersHeld", { owners: "Unread" })).toBeUndefined();
    expect(conditionOf("OwnersHeld", { owners: "Absent" })).toMatchObject({
      status: "False",
      message: "workerpools.ate.dev are not there: none is held",
    });
    const more = { owners: "Unread", holdProblem: refused } as const;
    expect(conditionOf("OwnersHeld", more)).toMatchObject({
      status: "Unknown",
      reason: reasons.FootprintHindered,
      message: `the hold of workerpools.ate.dev cannot be kept: ${refused}`,
    });
    expect(decide({ progress: { ...progress, ...more } }).news.map(({ type }) => type)).toEqual([
      "OwnersHeld",
    ]);
    const held = [{ ...anEntry("a"), message: "what it owns to be looked up" }];
    expect(conditionOf("OwnersHeld", { held, holdProblem: refused })?.message).toBe(
      `the deletion of ns/a waits for what it owns to be looked up; ${refused}`,
    );
  });

  it("says whether pods wait, only where they are to", () => {
    const wait = { ready: false, reason: reasons.AdmissionOff, message: "nobody is asked" };
    expect(conditionOf("PodsWait", { wait })).toBeUndefined();
    const waiting = footprintOf({
      preset: "agent-substrate/pr-134",
      wait: { inject: "Webhook", port: 8085 },
    });
    const told = decide({ progress: { ...progress, footprint: waiting, wait } });
    expect(told.status?.conditions?.find(({ type }) => type === "PodsWait")).toMatchObject({
      status: "False",
      reason: reasons.AdmissionOff,
    });
    expect(told.news.map(({ type }) => type)).toEqual(["PodsWait"]);
    expect(conditionOf("PodsWait", { footprint: waiting })).toBeUndefined();
    const object = { metadata: { generation: 3 }, status: stored(told.status) };
    expect(decide({}, object).status?.conditions?.map(({ type }) => type)).not.toContain("PodsWait");
  });

  it("says that a document with a fault goes on as it was, while it does", () => {
    const result = { ready: false, reason: reasons.FootprintOverlap, message: "neither is taken up" };
    const readyOf = (more: Partial<FootprintStatusInput>) =>
      decide({ result, ...more }).status?.conditions?.find(({ type }) => type === "Ready")?.message;
    expect(readyOf({})).toBe("neither is taken up; it stays in force as it was before");
    expect(readyOf({ progress: undefined })).toBe("neither is taken up");
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
      message: "cannot run on n1: taint x; nor on one more node, n2",
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

  it("says of a DaemonSet that is not there no more than that", () => {
    const message = "there is no DaemonSet a/b";
    const missing = ["n1", "n2"].map((node) => ({ node, reason: reasons.DaemonSetMissing, message }));
    expect(conditionOf("AgentPlaced", { agent: { unserved: missing, problems: [] } })?.message).toBe(message);
  });

  it("says no more of what a changed document does not do any more", () => {
    const { status } = decide();
    const before = { metadata: { generation: 4 }, status: stored(status) };
    const invalid = { ready: false, reason: reasons.FootprintInvalid, message: "a fault" };
    const after = decide({ result: invalid, progress: undefined }, before);
    expect(after.patch).toMatchObject({ nodes: null, claims: null, holds: null });
    expect(after.status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
    expect(after.news.map(({ reason }) => reason)).toEqual([reasons.FootprintInvalid]);
    const plain = footprintOf({
      workloads: [{ requests: ["x.test/y"] }],
      node: { label: { key: "x.test/a" } },
    });
    const other = decide({ progress: { ...progress, footprint: plain } }, before);
    expect(other.patch).toMatchObject({
      nodes: { labelled: 2, pending: 1, unknown: 0, agentReady: null, agentUnschedulable: null },
    });
    expect(other.status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
    const unchecked = footprintOf({ preset: "agent-substrate/pr-134", agent: { nodeSelector: "Off" } });
    const nodes = { labelled: 1, pending: 0, agentReady: 12, agentUnschedulable: 3 };
    const left = decide(
      { progress: { ...progress, footprint: unchecked, agent: undefined, agentReady: undefined } },
      { metadata: { generation: 4 }, status: { ...stored(status), nodes } },
    );
    expect(left.status?.nodes?.agentUnschedulable ?? 0).toBe(0);
    expect(left.status?.nodes?.agentReady ?? 0).toBe(0);
  });

  it("tells when the agent is placed again, and not that an owner waits", () => {
    const problem = { unserved: [], problems: [{ reason: reasons.AgentEverywhere, message: "x" }] };
    const { status, news } = decide({ progress: { ...progress, agent: problem, held: [anEntry("a")] } });
    expect(news.map(({ type }) => type)).toEqual(["AgentPlaced"]);
    const object = { metadata: { generation: 3 }, status: stored(status) };
    expect(decide({}, object).news).toMatchObject([{ type: "AgentPlaced", status: "True" }]);
  });
});

describe("while nodes are unknown", () => {
  const unknown = { counts: { ...counts, pending: 0, unknown: 2 }, unread: "get workerpools: refused" };

  it("has nothing said to be pending, and not that the agent is placed, but what cannot be read", () => {
    const { status, news } = decide({ progress: { ...progress, ...unknown } });
    expect(status?.nodes).toEqual({ labelled: 2, unknown: 2, agentReady: 2, agentUnschedulable: 0 });
    expect(status?.conditions?.find(({ type }) => type === "AgentPlaced")).toMatchObject({
      status: "Unknown",
      reason: reasons.FootprintUnknown,
      message: "it is not known yet of 2 nodes whether they need the agent: get workerpools: refused",
    });
    expect(news.map(({ type }) => type)).toEqual(["AgentPlaced"]);
    const object = { metadata: { generation: 3 }, status: stored(status) };
    expect(decide({ progress: { ...progress, ...unknown } }, object).status).toBeUndefined();
    expect(decide({}, object).status?.nodes).toMatchObject({ pending: 1, unknown: 0 });
  });

  it("takes back what was pending before", () => {
    const object = { metadata: { generation: 3 }, status: stored(decide().status) };
    const { patch } = decide({ progress: { ...progress, ...unknown } }, object);
    expect(patch).toMatchObject({ nodes: { pending: null } });
  });

  it("changes no condition for a moment of it, and is no news; what keeps the agent from a node goes before", () => {
    const brief = { counts: unknown.counts, unknownMs: 9_999 };
    expect(conditionOf("AgentPlaced", brief)).toBeUndefined();
    expect(decide({ progress: { ...progress, ...brief } }).news).toEqual([]);
    expect(conditionOf("AgentPlaced", { ...brief, unknownMs: 10_000 })?.status).toBe("Unknown");
    const unserved = [{ node: "n1", reason: reasons.AgentUnschedulable, message: "no" }];
    const agent = { unserved, problems: [] };
    expect(conditionOf("AgentPlaced", { ...unknown, agent })?.status).toBe("False");
  });

  it("tells so with `Ready` where no agent is checked", () => {
    const off = footprintOf({ preset: "agent-substrate/pr-134", agent: { nodeSelector: "Off" } });
    expect(conditionOf("Ready", { ...unknown, footprint: off })).toMatchObject({
      status: "True",
      message:
        "in force; it is not known yet of 2 nodes whether they need the agent: get workerpools: refused",
    });
  });
});
