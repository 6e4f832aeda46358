import { describe, expect, it } from "vitest";
import type { AggregatedItem, MemberCluster, ResourceBinding } from "../../api/karmada.ts";
import type { DeploymentStatus } from "../../api/workload.ts";
import { aCondition, NOW_MS } from "../../deployment/testing/fixtures.ts";
import { counts, onHub } from "../../hub/testing/fixtures.ts";
import { type Carried, type CarriedView, carriedOf, sumOf } from "./carried.ts";

const cluster = (
  name: string,
  ready: "True" | "False" | "Unknown" = "True",
  city = "DFW",
): MemberCluster => ({
  metadata: { name, labels: { "topology.datum.net/city-code": city } },
  status: { conditions: [aCondition("Ready", ready, "ClusterNotReachable", "no answer")] },
});
const echoed = counts(2, { observedSourceGeneration: 1 });
const item = (
  clusterName: string,
  status: object | undefined = echoed,
  fields: Partial<AggregatedItem> = {},
) => ({
  clusterName,
  status,
  applied: true,
  ...fields,
});
const bound = (names: readonly string[], items: readonly AggregatedItem[]): ResourceBinding => ({
  spec: { clusters: names.map((name) => ({ name })) },
  status: { aggregatedStatus: items },
});
const deployment = onHub({
  metadata: {
    labels: { "topology.datum.net/city-code": "DFW" },
    annotations: { "compute.datumapis.com/source-generation": "1" },
    creationTimestamp: "2025-12-31T23:59:00Z",
  },
});
const policy = { metadata: { name: "city-dfw" } };
const decide = (view: Partial<CarriedView>): Carried =>
  carriedOf({
    deployment,
    binding: bound(["a"], [item("a")]),
    policy: undefined,
    clusters: [cluster("a"), cluster("b")],
    behindForMs: 0,
    nowMs: NOW_MS,
    ...view,
  });

const told = ({ from, stale, own, isBehind, recheckAfterMs }: Carried): string =>
  [
    ...(from ? [`ready ${from.status?.readyReplicas}`] : []),
    ...(stale ? [`${stale.reason} ${stale.message}`] : []),
    ...Object.entries(own).flatMap(([type, it]) => (it ? `${type} ${it.reason}` : [])),
    ...(isBehind ? ["behind"] : []),
    ...(recheckAfterMs === undefined ? [] : [`in ${recheckAfterMs}`]),
  ].join(", ");

describe("F2 what cells say of a deployment", () => {
  const one = (status: object | undefined, fields: Partial<AggregatedItem> = {}): Partial<CarriedView> => ({
    binding: bound(["a"], [item("a", status, fields)]),
  });

  it.each<[string, Partial<CarriedView>, string]>([
    ["is that of its cell", {}, "ready 2"],
    [
      "is not that of a cell which it leaves",
      { binding: bound(["a"], [item("b", counts(9)), item("a")]) },
      "ready 2",
    ],
    ["is nothing before the cell has said it", { binding: bound(["a"], []) }, ""],
    ["is no zero where Karmada emptied it", { binding: bound(["a"], [{ clusterName: "a" }]) }, ""],
    [
      "8.8 is old while the cell is away",
      { clusters: [cluster("a", "Unknown")] },
      "CellUnreachable cell a: no answer",
    ],
    [
      "is old where no such Cluster has joined",
      { clusters: [] },
      "CellUnreachable cell a: no Cluster of this name has joined Karmada",
    ],
    ["2.9 lags behind", one(counts(2, { observedSourceGeneration: 0 })), "ready 2, behind"],
    [
      "2.9 lags behind for a minute",
      { ...one(counts(2, { observedSourceGeneration: 0 })), behindForMs: 60_000 },
      "ready 2, Stale AwaitingEcho, behind",
    ],
    ["is pushed where Karmada could not apply it", one({}, { applied: false }), "behind"],
    ["10.17 of a cell that never echoes is not pushed", one(counts(2)), "ready 2"],
    [
      "is not pushed to a cell that is away",
      { ...one(counts(2, { observedSourceGeneration: 0 })), clusters: [cluster("a", "False")] },
      "CellUnreachable cell a: no answer",
    ],
    [
      "T3 H18 of two cells is added, and both go on",
      { binding: bound(["b", "a"], [item("b"), item("a")]) },
      "ready 4, Placed AmbiguousCell",
    ],
    ["T3 waits for the second one", { binding: bound(["a", "b"], [item("a")]) }, "Placed AmbiguousCell"],
    [
      "without a binding has no cell after a minute",
      { binding: undefined },
      "Available NoMatchingLocation, Placed NoMatchingLocation",
    ],
    ["without a binding waits for a minute", { binding: undefined, nowMs: NOW_MS - 1 }, "in 1"],
    [
      "in no cell has none after a minute",
      { binding: bound([], []) },
      "Available NoMatchingLocation, Placed NoMatchingLocation",
    ],
  ])("%s", (_, view, expected) => expect(told(decide(view))).toBe(expected));

  it.each<[string, Partial<CarriedView>]>([
    ["no cell serves city DFW", { clusters: [cluster("a", "True", "ORD")] }],
    ["no cell of city DFW has it: Karmada has not chosen a cell", {}],
    [
      "no cell of city DFW has it: all are full",
      { binding: { status: { conditions: [aCondition("Scheduled", "False", "x", "all are full")] } } },
    ],
    ["no cell of city DFW has it: PropagationPolicy city-dfw is that of another program", { policy }],
    [
      "no cell of city DFW has it: PropagationPolicy city-dfw is that of city dfw",
      { policy: policyOfCity("dfw") },
    ],
  ])("H10 says why: %s", (message, view) =>
    expect(decide({ binding: undefined, ...view }).own["Placed"]?.message).toBe(message),
  );

  it("T3 names the cells, and what to do", () =>
    expect(decide({ binding: bound(["b", "a"], [item("b"), item("a")]) }).own["Placed"]?.message).toBe(
      "cells a, b have it: take the label topology.datum.net/city-code from all but one of these Clusters",
    ));

  it("says which cell lags behind, and why", () =>
    expect(
      decide({ ...one({}, { applied: false, appliedMessage: "denied" }), behindForMs: 60_000 }).own["Stale"]
        ?.message,
    ).toBe("cell a has not taken generation 1: denied. It is pushed again"));

  it("echoes the source's generation as that of the hub", () =>
    expect(decide({}).from?.status).toMatchObject({ observedGeneration: 1, observedSourceGeneration: 1 }));
});

function policyOfCity(city: string) {
  const matchLabels = { "topology.datum.net/city-code": city };
  const selector = { apiVersion: "compute.datumapis.com/v1alpha", kind: "WorkloadDeployment" };
  return { ...policy, spec: { resourceSelectors: [{ ...selector, labelSelector: { matchLabels } }] } };
}

describe("F2 the sum of several cells", () => {
  const said = (
    ready: number,
    available: "True" | "False",
    of: string,
    fields: Partial<DeploymentStatus> = {},
  ) =>
    counts(ready, {
      conditions: [aCondition("Available", available, of), aCondition("ReplicasReady", available, of)],
      ...fields,
    });

  it("is available where one is, and has all other conditions of the worst", () => {
    const { conditions, readyReplicas, replicas, desiredReplicas } = sumOf(
      [said(2, "True", "Best"), said(1, "False", "Worst")],
      undefined,
    );
    expect([replicas, readyReplicas, desiredReplicas]).toEqual([3, 3, 4]);
    expect(conditions?.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      "ReplicasReady Worst",
      "Available Best",
    ]);
  });

  it("is not available where none is", () => {
    const { conditions } = sumOf([said(1, "False", "Better"), said(0, "False", "Worst")], undefined);
    expect(conditions?.map(({ reason }) => reason)).toEqual(["Worst", "Worst"]);
  });

  it.each<[readonly (number | undefined)[], number | undefined]>([
    [[3, 2], 2],
    [[3, undefined], undefined],
  ])("has echoed what all have echoed: %j", (echoes, expected) => {
    const all = echoes.map((it) => counts(1, it === undefined ? {} : { observedSourceGeneration: it }));
    expect(sumOf(all, 1).observedSourceGeneration).toBe(expected);
  });
});
