import type { Node } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { RuleOutcome } from "../node/capability.ts";
import { taintId } from "../node/mark.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { NEW_YEAR, settle } from "../node/testing/labels.ts";
import { makeNode } from "../node/testing/world.ts";
import { createBootstraps } from "./bootstrap.ts";
import { bindArchitecture } from "./capability.ts";
import type { WorkloadOutcome } from "./pod-view.ts";
import { ArchitectureNodeTally, ArchitectureTally } from "./tally.ts";
import { policiesOf } from "./testing/policies.ts";

const KEY = "supported-arch";
const PLACE = taintId(KEY, "NoSchedule");
const waiting: WorkloadOutcome = { rule: "cluster/p", uncovered: [KEY], phase: "waiting" };
const settled: WorkloadOutcome = { rule: "cluster/p", uncovered: [], phase: "settled" };
const impossible: WorkloadOutcome = { ...settled, phase: "impossible" };

const quietTally = (): ArchitectureTally => new ArchitectureTally(() => undefined);

const someOutcome: fc.Arbitrary<WorkloadOutcome | undefined> = fc.option(
  fc.record({
    rule: fc.constantFrom("cluster/p", "cluster/q", undefined),
    uncovered: fc.subarray(["a", "b"]),
    phase: fc.constantFrom("settled", "waiting", "impossible", "unresolvable"),
  }),
  { nil: undefined },
);
const someWorkload = fc.constantFrom("Pod d/1", "Pod d/2", "Pod d/3", "DaemonSet d/1", "DaemonSet d/2");

describe("what is open about workloads", () => {
  it("A-B7 names what is uncovered, DaemonSets first, at most five", () => {
    const tally = quietTally();
    for (const at of [3, 1, 2, 5, 4]) tally.decided(`Pod default/${at}`, waiting);
    tally.decided("DaemonSet kube-system/cni", { ...settled, uncovered: [KEY] });
    expect(tally.uncovered(KEY)).toEqual({
      pods: 5,
      daemonSets: 1,
      first: ["DaemonSet kube-system/cni", ...[1, 2, 3, 4].map((at) => `Pod default/${at}`)],
    });
    expect(tally.pods("cluster/p")).toEqual({ waiting: 5, impossible: 0 });
  });

  it("counts no DaemonSet as a pod, and nothing that nobody governs", () => {
    const tally = quietTally();
    tally.decided("DaemonSet d/1", waiting);
    tally.decided("Pod d/1", { ...waiting, rule: undefined });
    expect(tally.total).toEqual({ waiting: 0, impossible: 0, uncovered: 2 });
  });

  it("tells that counts have changed, and nothing when none has", () => {
    const onChange = vi.fn<() => void>();
    const tally = new ArchitectureTally(onChange);
    const told = (step: () => void): boolean => {
      onChange.mockClear();
      step();
      return onChange.mock.calls.length > 0;
    };
    expect(told(() => tally.decided("Pod d/1", waiting))).toBe(true);
    expect(told(() => tally.decided("Pod d/1", { ...waiting }))).toBe(false);
    expect(told(() => tally.decided("Pod d/2", settled))).toBe(false);
    expect(told(() => tally.gone("Pod d/3"))).toBe(false);
    expect(told(() => tally.decided("Pod d/1", impossible))).toBe(true);
    expect(told(() => tally.gone("Pod d/1"))).toBe(true);
  });

  it("is after any history what it would be had only the last outcomes been", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(someWorkload, someOutcome)), (history) => {
        const tally = quietTally();
        for (const [workload, outcome] of history) {
          if (outcome === undefined) tally.gone(workload);
          else tally.decided(workload, outcome);
        }
        const fresh = quietTally();
        for (const [workload, outcome] of new Map(history)) {
          if (outcome !== undefined) fresh.decided(workload, outcome);
        }
        const all = (of: ArchitectureTally): unknown => [
          of.total,
          ...["a", "b"].map((key) => of.uncovered(key)),
          ...["cluster/p", "cluster/q"].map((rule) => of.pods(rule)),
        ];
        expect(all(tally)).toEqual(all(fresh));
      }),
    );
  });
});

const decided = (tally: ArchitectureNodeTally, name: string, outcomes: readonly RuleOutcome[]): void => {
  const decision = { marks: [], keep: new Map(), findings: [], outcomes };
  const { policy } = policiesOf({});
  tally.decided(name, { contributions: [{ capability: "architecture", policy, decision }] });
};

describe("tainted nodes", () => {
  it("are counted by policy, and by whose taint it is", () => {
    const onChange = vi.fn<() => void>();
    const tally = new ArchitectureNodeTally(onChange);
    const both = [
      { rule: "p", phase: "Tainted", place: PLACE },
      { rule: "q", phase: "TaintedByOthers", place: PLACE },
    ];
    decided(tally, "a", both);
    decided(tally, "b", [
      { rule: "p", phase: "TaintedByOthers", place: PLACE },
      { rule: "q", phase: "Untainted" },
    ]);
    const counts = () => [tally.counts("p").tainted, tally.counts("q").tainted, tally.tainted];
    expect(counts()).toEqual([2, 1, 2]);
    expect(["p", "q"].map((rule) => tally.isStanding(rule, PLACE))).toEqual([true, false]);
    expect(tally.isStanding("p", "taint/other:NoSchedule")).toBe(false);
    expect(onChange).toHaveBeenCalled();
    onChange.mockClear();
    decided(tally, "a", both);
    expect(onChange).not.toHaveBeenCalled();
    decided(tally, "a", []);
    tally.gone("b");
    expect(counts()).toEqual([0, 0, 0]);
    expect(tally.isStanding("p", PLACE)).toBe(false);
  });
});

describe("the bootstraps of all policies", () => {
  it("A-B7 go by what has been looked at, and end for good with the first node", () => {
    const tally = quietTally();
    const nodes = new ArchitectureNodeTally(() => {});
    const looked = { workloads: false, nodes: false };
    const policies = policiesOf({ p: {}, narrow: { mode: "Affinity" } });
    const bootstraps = createBootstraps({
      policies: () => policies,
      workloads: tally,
      nodes,
      workloadsLooked: () => looked.workloads,
      nodesLooked: () => looked.nodes,
    });
    const phases = ["cluster/p", "cluster/narrow", "cluster/no"].map((rule) => bootstraps.state(rule)?.phase);
    expect(phases).toEqual(["Bootstrapping", "Narrowing", undefined]);
    Object.assign(looked, { workloads: true, nodes: true });
    tally.decided("Pod d/1", waiting);
    expect(bootstraps.tainting("cluster/p")).toBe(false);
    tally.gone("Pod d/1");
    expect(bootstraps.tainting("cluster/p")).toBe(true);
    decided(nodes, "n", [{ rule: "cluster/p", phase: "Tainted", place: PLACE }]);
    tally.decided("Pod d/1", waiting);
    looked.workloads = false;
    expect([bootstraps.tainting("cluster/p"), bootstraps.tainting("cluster/narrow")]).toEqual([true, false]);
  });
});

describe("a policy that gets another key", () => {
  it("begins its bootstrap anew: nodes that carry the old key do not stand for the new one", () => {
    const tally = quietTally();
    const nodes = new ArchitectureNodeTally(() => {});
    let policies = policiesOf({ p: {} });
    const bootstraps = createBootstraps({
      policies: () => policies,
      workloads: tally,
      nodes,
      workloadsLooked: () => true,
      nodesLooked: () => true,
    });
    const capability = bindArchitecture({
      policies: () => policies,
      tainting: (rule) => bootstraps.tainting(rule),
    });
    const decide = (name: string, node: Node): void => {
      const owned = ownedMarks(recordOf(node), "berth");
      nodes.decided(name, { contributions: [capability.contribute({ node, owned }, NEW_YEAR)] });
    };
    const nodeInfo = { architecture: "arm64" } as NonNullable<NonNullable<Node["status"]>["nodeInfo"]>;
    const tainted = settle({ ...makeNode(), status: { nodeInfo } }, [capability]);
    for (const name of ["a", "b"]) decide(name, tainted);
    expect(nodes.counts("cluster/p").tainted).toBe(2);
    policies = policiesOf({ p: { taint: { key: "example.com/arch" } } });
    tally.decided("DaemonSet kube-system/cni", { ...settled, uncovered: ["example.com/arch"] });
    expect(bootstraps.state("cluster/p")?.phase).toBe("Bootstrapping");
    // Also while other nodes are still to be looked at.
    decide("a", tainted);
    expect(bootstraps.tainting("cluster/p")).toBe(false);
  });
});
