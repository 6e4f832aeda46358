import { type DocumentResult, decideStatus } from "@berth/host";
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import type { StartupGate } from "./resource.ts";
import { describeGate, type GateStatusInput } from "./status.ts";
import type { GateCounts } from "./tally.ts";

const counts: GateCounts = {
  selected: 5,
  held: 2,
  heldAgain: 1,
  timedOut: 1,
  firstHeld: ["n1", "n2"],
  wouldHold: 0,
  wouldRelease: 0,
};
const inForce: DocumentResult = { ready: true, reason: "GateInForce", message: "in force" };
const faulty: DocumentResult = { ready: false, reason: "GateInvalid", message: "spec.after: no" };
const byPolicy: DocumentResult = { ready: true, reason: "AdmissionByPolicy", message: "by policy" };
const failed: DocumentResult = { ready: false, reason: "AdmissionFailed", message: "no right" };
const off: DocumentResult = { ready: false, reason: "AdmissionOff", message: "off" };
const gate: StartupGate = { metadata: { name: "g", generation: 2 } };
const decide = (more: Partial<GateStatusInput> = {}, now = NEW_YEAR) => {
  const input = {
    gate,
    result: inForce,
    counts,
    admission: byPolicy,
    directBinding: undefined,
    ...more,
  };
  return decideStatus(input.gate, describeGate(input), now);
};
const after = (more: Partial<GateStatusInput>): StartupGate => {
  const { status } = decide(more);
  return { ...gate, ...(status !== undefined && { status }) };
};
const newsOf = (more: Partial<GateStatusInput>): string[] =>
  decide(more).news.map(({ type, status, reason }) => `${type}=${status} ${reason}`);

describe("the status of a gate", () => {
  it("says what it is about, counts, and what works", () => {
    const since = { observedGeneration: 2, lastTransitionTime: "2026-01-01T00:00:00Z" };
    expect(decide().status).toEqual({
      observedGeneration: 2,
      selectedNodes: 5,
      heldNodes: 2,
      timedOutNodes: 1,
      firstNodes: ["n1", "n2"],
      conditions: [
        { type: "Admission", status: "True", reason: "AdmissionByPolicy", message: "by policy", ...since },
        { type: "Ready", status: "True", reason: "GateInForce", message: "in force", ...since },
      ],
    });
  });

  it("is not written while the version has not been looked at, nor when nothing changed", () => {
    expect(decide({ gate: after({}) }, NEW_YEAR + 60_000).status).toBeUndefined();
  });

  it("I-14 says in a dry run what would be held and let go, and nothing of admission", () => {
    const counted = { ...counts, held: 1, wouldHold: 3, wouldRelease: 1 };
    const dry = { ...after({}), spec: { dryRun: true, directBinding: "Refuse" } };
    const { status } = decide({ gate: dry, counts: counted, directBinding: inForce });
    expect(status).toMatchObject({ heldNodes: 1, wouldHoldNodes: 3, wouldReleaseNodes: 1 });
    expect(status?.conditions).toMatchObject([{ type: "Ready", status: "True", reason: "DryRun" }]);
    const { status: enforced } = decide({ gate: { ...dry, status: status ?? {}, spec: {} } });
    expect(enforced).toMatchObject({ wouldHoldNodes: 0, wouldReleaseNodes: 0 });
  });

  it("I-14 says whether pods that name a held node are refused, where that is wanted", () => {
    const refusing = { ...gate, spec: { directBinding: "Refuse" } };
    const says = (of: StartupGate) =>
      decide({ gate: of, directBinding: { ready: false, reason: "AdmissionFailed", message: "no" } }).status
        ?.conditions;
    expect(says(refusing)?.find(({ type }) => type === "DirectBinding")).toMatchObject({
      status: "False",
      message: "no",
    });
    expect(says(gate)?.some(({ type }) => type === "DirectBinding")).toBe(false);
  });

  it("keeps what was counted before until every node has been looked at", () => {
    expect(decide({ gate: after({}), counts: undefined, admission: failed }).status).toMatchObject({
      selectedNodes: 5,
      heldNodes: 2,
    });
  });

  it("says nothing of admission while it is not known, or the gate is not in force", () => {
    for (const more of [{ admission: undefined }, { result: faulty }]) {
      expect(decide(more).status?.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
    }
  });

  it.each<[string, Partial<GateStatusInput>, readonly string[]]>([
    ["that it works from the start is none", {}, []],
    ["a fault", { result: faulty }, ["Ready=False GateInvalid"]],
    ["a fault that stands is none", { gate: after({ result: faulty }), result: faulty }, []],
    ["it works again", { gate: after({ result: faulty }) }, ["Ready=True GateInForce"]],
    ["admission fails", { admission: failed }, ["Admission=False AdmissionFailed"]],
    ["admission works again", { gate: after({ admission: failed }) }, ["Admission=True AdmissionByPolicy"]],
    ["that nobody asked for admission is none", { admission: off }, []],
  ])("news: %s", (_, more, expected) => expect(newsOf(more)).toEqual(expected));
});
