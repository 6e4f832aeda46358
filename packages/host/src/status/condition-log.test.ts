import type { Condition } from "@berth/kube";
import type { LogFields, Logger } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { ConditionLog } from "./condition-log.ts";

function aLog() {
  const lines: string[] = [];
  const write =
    (level: string) =>
    (_: string, fields: LogFields = {}): void => {
      lines.push([level, ...["name", "condition", "status", "reason"].map((key) => fields[key])].join(" "));
    };
  const log: Logger = {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    with: () => log,
  };
  return {
    lines,
    said: new ConditionLog({ noun: "footprint", isGood: ({ status }) => status === "True", log }),
  };
}

const condition = (type: string, status: Condition["status"], reason: string, message = ""): Condition => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: "2026-01-01T00:00:00Z",
});

describe("the conditions of a document in a file", () => {
  it("are told when they are first known, and when status or reason change: not for another number", () => {
    const { lines, said } = aLog();
    const ready = condition("Ready", "True", "FootprintInForce");
    said.tell("config/a", [ready, condition("AgentPlaced", "False", "AgentUnschedulable", "on n1")]);
    said.tell("config/a", [ready, condition("AgentPlaced", "False", "AgentUnschedulable", "on n1, n2")]);
    said.tell("config/a", [ready, condition("AgentPlaced", "Unknown", "FootprintUnknown")]);
    said.tell("config/a", [ready, condition("AgentPlaced", "True", "AgentPlaced")]);
    expect(lines).toEqual([
      "info config/a Ready True FootprintInForce",
      "warn config/a AgentPlaced False AgentUnschedulable",
      "warn config/a AgentPlaced Unknown FootprintUnknown",
      "info config/a AgentPlaced True AgentPlaced",
    ]);
  });

  it("are told anew of a document that is made again", () => {
    const { lines, said } = aLog();
    const ready = condition("Ready", "True", "FootprintInForce");
    said.tell("config/a", [ready]);
    said.keep(["config/b"]);
    expect(said.of("config/a")).toBeUndefined();
    said.tell("config/a", [ready]);
    expect(lines).toHaveLength(2);
  });
});
