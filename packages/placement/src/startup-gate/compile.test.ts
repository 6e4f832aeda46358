import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { holdsMark } from "../node/mark-set.ts";
import { permits } from "../node/validate.ts";
import { type CompileInput, compileGates, declaredPlaces } from "./compile.ts";
import { type StartupGateSpec, startupGateSpec } from "./document.ts";
import type { GateDocument, Gates } from "./gate.ts";
import type { SpecInput } from "./testing/gate-case.ts";

const spec = (input: SpecInput): StartupGateSpec => startupGateSpec.parse({ minimumHold: "1s", ...input });
const taint = (key: string): SpecInput => ({ taint: { key } });
const documents = (inputs: Readonly<Record<string, SpecInput>>): GateDocument[] =>
  Object.entries(inputs).map(([name, input]) => ({ name, spec: spec(input) }));
const compile = (inputs: Readonly<Record<string, SpecInput>>, more: Partial<CompileInput> = {}): Gates =>
  compileGates({ sources: [{ source: "config", documents: documents(inputs) }], ...more });
const faultsOf = ({ faults }: Gates): string[] =>
  faults.map(
    ({ source, name, path, reason, message }) => `${source}/${name} ${path.join(".")} ${reason}: ${message}`,
  );
const CONTRACT = "taint/startup.k8s.io/initializing:NoSchedule";

describe("gates in force", () => {
  it("have their durations in milliseconds, and their places on the node", () => {
    const { gates, faults } = compile({
      network: {
        stableFor: "2s",
        minimumHold: "1m",
        timeouts: { noPod: "5m", notReady: "10m" },
        backfill: { within: "1h" },
      },
    });
    expect(faults).toEqual([]);
    expect(gates).toMatchObject([
      {
        rule: "config/network",
        taintId: CONTRACT,
        stateId: "annotation/gate.berth.dev/network",
        completedId: "annotation/startup.k8s.io/completedAt",
        stableForMs: 2_000,
        minimumHoldMs: 60_000,
        noPodMs: 300_000,
        notReadyMs: 600_000,
        backfillMs: 3_600_000,
      },
    ]);
  });

  it.each<[string, SpecInput, string | undefined]>([
    [
      "the taint of the contract has the annotation of the contract",
      {},
      "annotation/startup.k8s.io/completedAt",
    ],
    ["another key has none", taint("example.com/a"), undefined],
    ["nor has another effect", { taint: { effect: "NoExecute" } }, undefined],
    ["but what it names", { completedAnnotation: "example.com/at" }, "annotation/example.com/at"],
  ])("%s", (_, input, completedId) => {
    expect(compile({ g: input }).gates[0]?.completedId).toBe(completedId);
  });

  it("of one name or place the first is in force, and files come before the cluster", () => {
    const gates = compileGates({
      sources: [
        { source: "config", documents: documents({ a: taint("example.com/a") }) },
        {
          source: "cluster",
          documents: documents({
            a: taint("example.com/b"),
            c: taint("example.com/a"),
            d: { ...taint("example.com/d"), completedAnnotation: "example.com/at" },
            e: { ...taint("example.com/e"), completedAnnotation: "example.com/at" },
          }),
        },
      ],
    });
    expect(gates.gates.map(({ rule }) => rule)).toEqual(["config/a", "cluster/d"]);
    expect(faultsOf(gates)).toEqual([
      "cluster/a  GateOverlap: config/a has the same name and goes before it",
      "cluster/c taint.key GateOverlap: config/a has the same taint, came first, and stays in force",
      "cluster/e completedAnnotation GateOverlap: cluster/d writes the same annotation, came first, and stays in force",
    ]);
  });

  it("two effects of one key are two taints", () => {
    const { gates, faults } = compile({ a: {}, b: { taint: { effect: "NoExecute" } } });
    expect([gates.length, faults]).toEqual([2, []]);
  });
});

describe("a document with a fault", () => {
  it.each<[string, SpecInput, string]>([
    [
      "g",
      { taint: { key: "node.kubernetes.io/not-ready" } },
      "taint.key GateInvalid: Kubernetes itself sets",
    ],
    ["x".repeat(64), {}, " GateInvalid: the name of a gate has at most 63 characters"],
    [
      "g",
      { nodeSelector: { matchLabels: { "a b": "1" } } },
      "nodeSelector.matchLabels.a b GateInvalid: no label can have this key:",
    ],
    [
      "g",
      { signals: { pods: [{ selector: {} }] } },
      "signals.pods.0.selector GateInvalid: it selects every pod",
    ],
    [
      "g",
      { completedAnnotation: "gate.berth.dev/g" },
      "completedAnnotation GateInvalid: Berth keeps its own state there",
    ],
    [
      "g",
      { completedAnnotation: "berth.dev/marks" },
      "completedAnnotation GateInvalid: Berth keeps its own state there",
    ],
  ])("%s %j", (name, input, fault) => {
    const gates = compile({ [name]: input, other: taint("example.com/other") });
    expect(faultsOf(gates).join()).toContain(`config/${name} ${fault}`);
    expect(gates.gates.map((gate) => gate.name)).toEqual(["other"]);
    expect(gates.policy.rules).toContain(`config/${name}`);
  });

  it("says why its spec could not be read", () => {
    const unreadable = [{ name: "g", message: "spec.mode: no" }];
    const gates = compileGates({ sources: [{ source: "cluster", documents: [], unreadable }] });
    expect(faultsOf(gates)).toEqual(["cluster/g  GateInvalid: spec.mode: no"]);
  });
});

describe("the order of gates", () => {
  const after = (...names: string[]): SpecInput => ({ after: names });
  const at = (inputs: Readonly<Record<string, SpecInput>>): Gates =>
    compile(
      Object.fromEntries(
        Object.entries(inputs).map(([name, it]) => [name, { ...taint(`example.com/${name}`), ...it }]),
      ),
    );
  const names = ({ gates }: Gates): string => gates.map(({ name }) => name).join(" ");

  it("a gate stands behind those that it waits for, and one that is not there is not waited for", () => {
    expect(names(at({ a: after("b", "c"), b: after("c"), c: {}, d: after("nobody") }))).toBe("c d b a");
  });

  it("the gate that closes a circle is not in force, and those before and behind it are", () => {
    const gates = at({ a: after("b"), b: after("c"), c: after("b"), d: after("d"), e: after("a", "d") });
    expect(names(gates)).toBe("b a e");
    expect(gates.faults.map(({ name }) => name)).toEqual(["c", "d"]);
    expect(gates.faults[0]).toMatchObject({ source: "config", path: ["after"], reason: "GateInvalid" });
  });

  it("is such for any gates", () => {
    const name = fc.constantFrom("a", "b", "c", "d", "e");
    const all = fc.dictionary(
      name,
      fc.uniqueArray(name, { maxLength: 3 }).map((it) => after(...it)),
    );
    fc.assert(
      fc.property(all, (inputs) => {
        const gates = at(inputs);
        const place = new Map(gates.gates.map((gate, index) => [gate.name, index]));
        for (const [index, gate] of gates.gates.entries())
          for (const before of gate.spec.after) expect(place.get(before) ?? -1).toBeLessThan(index);
        expect(gates.gates.length + gates.faults.length).toBe(Object.keys(inputs).length);
      }),
    );
  });
});

describe("what may be written and taken off", () => {
  const KEY = "readiness.k8s.io/network";
  const place = `taint/${KEY}:NoSchedule` as const;

  it("a gate in force has its taint to itself, and may write it under a protected domain", () => {
    const { policy } = compile({ network: taint(KEY) });
    expect([permits(policy, place), holdsMark(policy.exclusive, place)]).toEqual([true, true]);
    expect(permits(policy, "taint/readiness.k8s.io/other:NoSchedule")).toBe(false);
    expect(permits(policy, `taint/${KEY}:NoExecute`)).toBe(false);
  });

  it("the taint of the contract may be taken off without any gate, and is nobody's own then", () => {
    const { policy } = compile({});
    expect(permits(policy, CONTRACT)).toBe(true);
    expect(permits(policy, "annotation/startup.k8s.io/completedAt")).toBe(true);
    expect(holdsMark(policy.exclusive, CONTRACT)).toBe(false);
    expect(permits(policy, place)).toBe(false);
  });

  it("what was declared before may still be taken off", () => {
    const before = compile({ network: taint(KEY) });
    const { policy } = compile({}, { declaredBefore: declaredPlaces(before) });
    expect([permits(policy, place), holdsMark(policy.exclusive, place)]).toEqual([true, false]);
  });

  it("only sources that were given have been read", () => {
    const { policy } = compileGates({ sources: [{ source: "cluster", documents: [] }] });
    expect([...policy.sourcesRead]).toEqual(["cluster"]);
  });
});
