import { type DocumentResult, decideStatus } from "@berth/host";
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import type { BootstrapState } from "./bootstrap.ts";
import type { ArchitecturePolicy } from "./resource.ts";
import { type ArchitectureProgress, type ArchitectureStatusInput, describePolicy } from "./status.ts";

const inForce: DocumentResult = { ready: true, reason: "ArchitecturePolicyInForce", message: "yes" };
const faulty: DocumentResult = { ready: false, reason: "ArchitecturePolicyInvalid", message: "no" };
const asked: DocumentResult = { ready: true, reason: "AdmissionByWebhook", message: "by webhook" };
const failed: DocumentResult = { ready: false, reason: "AdmissionFailed", message: "no right" };
const waits: BootstrapState = {
  phase: "Bootstrapping",
  reason: "ArchitectureBootstrapping",
  message: "waits for 1 pod",
};
const confirm: BootstrapState = { ...waits, reason: "ConfirmationRequired", message: "waits for a person" };
const tainting: BootstrapState = { phase: "Tainting", reason: "ArchitectureTainted", message: "tainted" };
const narrowing: BootstrapState = {
  phase: "Narrowing",
  reason: "ArchitecturePolicyInForce",
  message: "narrowed",
};
const progress = (
  bootstrap: BootstrapState,
  more: Partial<ArchitectureProgress> = {},
): ArchitectureProgress => ({
  bootstrap,
  taintedNodes: 0,
  uncovered: { pods: 1, daemonSets: 1, first: ["DaemonSet d/x", "Pod d/y"] },
  pods: { waiting: 3, impossible: 2 },
  ...more,
});

const policy: ArchitecturePolicy = { metadata: { name: "p", generation: 2 } };
const decide = (more: Partial<ArchitectureStatusInput> = {}, now = NEW_YEAR) => {
  const input = {
    policy,
    result: inForce,
    progress: progress(waits),
    admission: asked,
    ...more,
  };
  return decideStatus(input.policy, describePolicy(input), now);
};
const after = (more: Partial<ArchitectureStatusInput>): ArchitecturePolicy => {
  const { status } = decide(more);
  return { ...policy, ...(status !== undefined && { status }) };
};
const newsOf = (more: Partial<ArchitectureStatusInput>): string[] =>
  decide(more).news.map(({ type, status, reason }) => `${type}=${status} ${reason}`);
const typesOf = (more: Partial<ArchitectureStatusInput>): readonly string[] | undefined =>
  decide(more).status?.conditions?.map(({ type }) => type);

describe("the status of an architecture policy", () => {
  it("A-B7 says what it waits for, counts, and what works", () => {
    const since = { observedGeneration: 2, lastTransitionTime: "2026-01-01T00:00:00Z" };
    expect(decide().status).toEqual({
      observedGeneration: 2,
      phase: "Bootstrapping",
      taintedNodes: 0,
      uncovered: 2,
      firstUncovered: ["DaemonSet d/x", "Pod d/y"],
      waitingPods: 3,
      impossiblePods: 2,
      conditions: [
        { type: "Admission", status: "True", reason: "AdmissionByWebhook", message: "by webhook", ...since },
        { type: "Ready", status: "True", reason: "ArchitecturePolicyInForce", message: "yes", ...since },
        { type: "Tainting", status: "False", reason: waits.reason, message: waits.message, ...since },
      ],
    });
  });

  it("is not written while the version has not been looked at, nor when nothing changed", () => {
    expect(decide({ policy: after({}) }, NEW_YEAR + 60_000).status).toBeUndefined();
  });

  it("keeps what was counted before until it can be told again", () => {
    const unknown = { taintedNodes: undefined, uncovered: undefined, pods: undefined };
    const { status } = decide({ policy: after({}), progress: progress(tainting, unknown) });
    expect(status).toMatchObject({ phase: "Tainting", uncovered: 2, waitingPods: 3, taintedNodes: 0 });
  });

  it("says nothing of taints when it does without, also where it did before", () => {
    const narrowed = { progress: progress(narrowing) };
    expect(typesOf(narrowed)).toEqual(["Admission", "Ready"]);
    expect(typesOf({ policy: after({ progress: progress(tainting) }), ...narrowed })).toEqual([
      "Admission",
      "Ready",
    ]);
  });

  it("says only why it is not in force, and all of it while it stays in force as it was before", () => {
    const policyBefore = after({ progress: progress(tainting) });
    expect(typesOf({ policy: policyBefore, result: faulty, progress: undefined })).toEqual(["Ready"]);
    expect(typesOf({ policy: policyBefore, result: faulty })).toEqual(["Admission", "Ready", "Tainting"]);
  });

  it("keeps what it said of admission while that is not known", () => {
    expect(typesOf({ policy: after({}), admission: undefined, progress: progress(tainting) })).toEqual([
      "Admission",
      "Ready",
      "Tainting",
    ]);
  });

  it.each<[string, Partial<ArchitectureStatusInput>, readonly string[]]>([
    ["that it works from the start, and that a bootstrap takes its time, is none", {}, []],
    ["a fault", { result: faulty }, ["Ready=False ArchitecturePolicyInvalid"]],
    ["a fault that stands is none", { policy: after({ result: faulty }), result: faulty }, []],
    ["it works again", { policy: after({ result: faulty }) }, ["Ready=True ArchitecturePolicyInForce"]],
    [
      "A-B7 a person has to confirm it",
      { policy: after({}), progress: progress(confirm) },
      ["Tainting=False ConfirmationRequired"],
    ],
    [
      "A-B7 nodes are tainted from now on",
      { policy: after({}), progress: progress(tainting) },
      ["Tainting=True ArchitectureTainted"],
    ],
    ["that they are after a restart is none", { progress: progress(tainting) }, []],
    ["nobody asks about pods", { admission: failed }, ["Admission=False AdmissionFailed"]],
    [
      "that nobody was to ask is none",
      { admission: { ready: false, reason: "AdmissionOff", message: "off" } },
      [],
    ],
  ])("news: %s", (_, more, expected) => expect(newsOf(more)).toEqual(expected));
});
