import { formatAge, styleFor } from "@berth/host";
import { describe, expect, it } from "vitest";
import type { GateExplanation } from "./explain.ts";
import { formatGate, formatGatePlan, withWaits } from "./show.ts";

const style = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const NOW = Date.parse("2026-01-01T00:10:00Z");

const held: GateExplanation = {
  gate: "cluster/network",
  selected: true,
  held: true,
  phase: "Held",
  reason: "Gated",
  since: "2026-01-01T00:00:00Z",
  after: [],
  signals: [{ signal: "condition Net", state: "holds", reason: "SignalHolds", message: "Net is True" }],
  timeouts: [],
};
const missing = {
  signal: "pods a",
  state: "missing",
  reason: "PodMissing",
  message: "there is none",
} as const;

describe("an age", () => {
  it.each([
    [-5, "0s"],
    [999, "0s"],
    [3000, "3s"],
    [310_000, "5m10s"],
    [7_200_000, "2h"],
    [7_203_000, "2h"],
    [356_400_000, "4d3h"],
    [86_400_000, "1d"],
  ])("of %i ms is %s", (ms, text) => {
    expect(formatAge(ms)).toBe(text);
  });
});

describe("a gate on one node", () => {
  it("is shown with all that it waits for", () => {
    const text = formatGate(
      {
        ...held,
        stable: { passedMs: 3000, ofMs: 5000 },
        minimumHold: { passedMs: 1000, ofMs: 60_000 },
        timeouts: [
          { timeout: "noPod", passedMs: 600_000, ofMs: 300_000, policy: "Keep" },
          { timeout: "notReady", passedMs: 600_000, ofMs: 900_000, policy: "Cordon" },
        ],
      },
      NOW,
      style,
    );
    expect(text).toBe(
      [
        "gate cluster/network",
        "  phase          Held: Gated",
        "  held since     2026-01-01T00:00:00Z (10m ago)",
        "  signal holds   condition Net: SignalHolds: Net is True",
        "  waits          all signals hold, for 3s of 5s",
        "  waits          held at least: for 1s of 1m",
        "  waits          timeout noPod of 5m since 5m: the node stays held, with a warning",
        "  waits          timeout notReady of 15m in 5m: the node stays held and is cordoned",
        "",
      ].join("\n"),
    );
  });

  it.each<[string, Partial<GateExplanation>, string]>([
    ["another gate", { after: ["storage"], signals: [missing] }, "gate storage"],
    ["the first signal that is missing", { signals: [...held.signals, missing] }, "pods a: there is none"],
    ["time", { stable: { ofMs: 5000 } }, "all signals hold, and must for 5s"],
    ["the least hold", { minimumHold: { passedMs: 0, ofMs: 60_000 } }, "held at least: for 0s of 1m"],
    ["nothing any more", { next: "release", phase: "Open" }, "nothing: it is about to be released"],
  ])("waits for %s", (_, part, text) => {
    expect(withWaits({ ...held, ...part }).waitsFor[0]).toContain(text);
  });

  it("I-5 waits for everything that is missing, in words, and for nothing once it is let go", () => {
    const other = { ...missing, signal: "pods b" };
    const { waitsFor } = withWaits({ ...held, signals: [missing, ...held.signals, other] });
    expect(waitsFor).toEqual(["pods a: there is none", "pods b: there is none"]);
    expect(withWaits({ ...held, held: false, phase: "Open", signals: [missing] }).waitsFor).toEqual([]);
  });
});

describe("the gates of a plan", () => {
  it("name a few of many nodes", () => {
    const hold = Array.from({ length: 12 }, (_, at) => `n${at}`);
    const gates = [
      { gate: "cluster/network", selected: 20, held: 3, hold, release: ["x"], pending: 7, dryRun: false },
    ];
    expect(formatGatePlan({ gates, autoscaler: [] }, style)).toBe(
      "cluster/network selects 20 nodes and holds 3; its taint would be put on 12 (n0, n1, n2, n3, n4, …) and would be removed from 1 (x). It would hold 7 young ones as well, if idle.\n",
    );
  });

  it("I-14 say that one in dry run will not do it", () => {
    const gate = { gate: "g", selected: 1, held: 0, hold: ["n"], release: [], pending: 0, dryRun: true };
    expect(formatGatePlan({ gates: [gate], autoscaler: [] }, style)).toBe(
      "g selects 1 node and holds 0; its taint would be put on 1 (n). It is in dry run: nothing of this will be written.\n",
    );
  });
});
