import { describe, expect, it } from "vitest";
import { autoscalerHints } from "./autoscaler.ts";
import { gateList } from "./testing/gate-list.ts";

const hintsFor = (...keys: readonly string[]): readonly string[] =>
  autoscalerHints(gateList(Object.fromEntries(keys.map((key, at) => [`g${at}`, { taint: { key } }]))));

describe("hints for autoscalers", () => {
  it("say nothing without gates", () => {
    expect(autoscalerHints({ gates: [] })).toEqual([]);
  });

  it("name the taint of the contract to both", () => {
    expect(autoscalerHints(gateList({ a: {} }))).toEqual([
      "cluster-autoscaler: flags, from 1.29 on, so that it treats the taints as temporary",
      "  --startup-taint=startup.k8s.io/initializing",
      "  where flags cannot be set (GKE, AKS), use a taint key under startup-taint.cluster-autoscaler.kubernetes.io/",
      "Karpenter: in each NodePool with nodes that the gates select, of those gates",
      "  spec:",
      "    template:",
      "      spec:",
      "        startupTaints:",
      '          - key: "startup.k8s.io/initializing"',
      '            value: "wait"',
      "            effect: NoSchedule",
    ]);
  });

  it("offer a prefix where keys share a domain, and name each key once", () => {
    const list = gateList({
      a: { taint: { key: "example.com/a" } },
      b: { taint: { key: "example.com/b" } },
      again: { taint: { key: "example.com/b", effect: "NoExecute" } },
      c: { taint: { key: "c" } },
      d: { taint: { key: "d" } },
    });
    expect(autoscalerHints(list).filter((line) => line.includes("--startup-taint"))).toEqual([
      "  --startup-taint=c",
      "  --startup-taint=d",
      "  --startup-taint=example.com/a",
      "  --startup-taint=example.com/b",
      "  (or, from 1.36 on, --startup-taint-prefix=example.com/ for 2 of them)",
    ]);
  });

  it("leave out what an autoscaler knows by itself", () => {
    const forCluster = "startup-taint.cluster-autoscaler.kubernetes.io/network";
    const old = "ignore-taint.cluster-autoscaler.kubernetes.io/network";
    const clusterHints = hintsFor(forCluster, old);
    expect(clusterHints[0]).toBe("cluster-autoscaler: nothing to set, it knows these keys by their prefix");
    expect(clusterHints.filter((line) => line.includes("- key"))).toHaveLength(2);
    const readinessHints = hintsFor("readiness.k8s.io/network");
    expect(readinessHints).toContain("  --startup-taint=readiness.k8s.io/network");
    expect(readinessHints.at(-1)).toBe(
      "Karpenter: nothing to set for keys under readiness.k8s.io/, which it knows from 1.13 on",
    );
  });
});
