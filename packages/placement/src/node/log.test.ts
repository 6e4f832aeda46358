import { createJsonLogger, createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { reasons } from "../api/reasons.ts";
import { type Contribution, unreadPolicy } from "./capability.ts";
import type { Change } from "./change.ts";
import { NodeLog } from "./log.ts";

function aLog(level: "info" | "debug" = "info") {
  const lines: Record<string, unknown>[] = [];
  const clock = createVirtualClock();
  const write = (line: string): void => {
    const { time: _, ...fields } = JSON.parse(line) as Record<string, unknown>;
    lines.push(fields);
  };
  const log = createJsonLogger({ level, clock, destination: { write } });
  return { lines, clock, told: new NodeLog({ clock, log, nouns: new Map([["gates", "gate"]]) }) };
}

const label = (
  name: string,
  action: Change["action"],
  reason: Change["reason"],
  rule = "config/a",
): Change => {
  return { id: `label/example.com/${name}`, action, capability: "labels", rule, reason, after: "true" };
};
const SET = label("new", "add", reasons.RuleMatched);
const taint: Change = {
  id: "taint/example.com/wait:NoSchedule",
  action: "add",
  capability: "gates",
  rule: "config/net",
  after: "yes",
  reason: reasons.Gated,
};

describe("I-9 the log", () => {
  it("tells labels that were set and removed on one node, with rule and reason", async () => {
    const { lines, clock, told } = aLog();
    const [added, removed] = [SET, label("old", "remove", reasons.RuleGone, "config/b")];
    told.written("n1", [added, removed, label("kept", "adopt", reasons.Adopted)], []);
    expect(lines).toEqual([]);
    await clock.advance(1000);
    expect(lines).toEqual([
      {
        level: "info",
        msg: "node written",
        node: "n1",
        labelsSet: [{ label: "example.com/new", rule: "config/a", reason: "RuleMatched", nodes: 1 }],
        labelsRemoved: [{ label: "example.com/old", rule: "config/b", reason: "RuleGone", nodes: 1 }],
      },
    ]);
  });

  it("tells a mass change on one line, with the number of nodes for each rule and reason", async () => {
    const { lines, clock, told } = aLog();
    for (let at = 0; at < 7; at++) told.written(`n${at}`, [SET], []);
    told.written("n7", [label("new", "add", reasons.MarkRestored)], []);
    await clock.advance(1000);
    expect(lines).toEqual([
      {
        level: "info",
        msg: "nodes written",
        nodes: 8,
        first: ["n0", "n1", "n2", "n3", "n4"],
        labelsSet: [
          { label: "example.com/new", rule: "config/a", reason: "RuleMatched", nodes: 7 },
          { label: "example.com/new", rule: "config/a", reason: "MarkRestored", nodes: 1 },
        ],
      },
    ]);
  });

  it("tells a taint at once, with what the gate waits for, and nothing else of the node", async () => {
    const { lines, clock, told } = aLog();
    const finding = (subject: string, message: string) =>
      ({ reason: reasons.PodMissing, severity: "info", subject, message }) as const;
    const findings = [finding("config/net", "pods a=b: none"), finding("config/other", "pods c=d: none")];
    const gates: Contribution = {
      capability: "gates",
      policy: unreadPolicy,
      decision: { marks: [], keep: new Map(), removals: new Map(), findings },
    };
    told.written("n1", [taint], [gates, { ...gates, capability: "labels" }]);
    const { after: before = "", ...rest } = taint;
    told.written("n1", [{ ...rest, action: "remove", before, reason: reasons.Released }], [gates]);
    await clock.advance(1000);
    const about = { gate: "config/net", taint: "example.com/wait=yes:NoSchedule" };
    const shared = { level: "info", node: "n1", ...about };
    expect(lines).toEqual([
      { ...shared, msg: "taint set", action: "add", reason: "Gated", waitsFor: ["pods a=b: none"] },
      { ...shared, msg: "taint removed", action: "remove", reason: "Released" },
    ]);
  });

  it("tells what is left when it ends, and each change at level debug", async () => {
    const { lines, told } = aLog("debug");
    const stop = new AbortController();
    const { ended } = await told.start(stop.signal);
    told.written("n1", [SET], []);
    stop.abort();
    await ended;
    const { id: mark, ...change } = SET;
    expect(lines.map(({ level, msg, changes }) => ({ level, msg, changes }))).toEqual([
      { level: "debug", msg: "node written", changes: [{ mark, ...change }] },
      { level: "info", msg: "node written", changes: undefined },
    ]);
  });
});
