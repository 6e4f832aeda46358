import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Condition } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { Instance } from "../../api/workload.ts";
import {
  keptConditions,
  keptDeploymentStatus,
  keptInstanceSpec,
  keptInstanceStatus,
  keptTexts,
} from "./kept.ts";

const ready: Condition = {
  type: "Ready",
  status: "True",
  reason: "Available",
  message: "it runs",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};
const long = "x".repeat(1_000_000);

it("the beginning of a long message does not keep all of it in memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  const before = process.memoryUsage().heapUsed;
  const kept = Array.from({ length: 100 }, (_, at) => {
    const said: unknown = JSON.parse(JSON.stringify({ ...ready, message: `${at}${long}` }));
    return keptConditions([said]);
  });
  collect();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  expect(kept).toHaveLength(100);
});

describe("conditions of a cell", () => {
  it("are kept as the hub can store them", () => {
    expect(keptConditions([ready, { ...ready, type: "a.b/C", observedGeneration: 2 }])).toHaveLength(2);
    expect(keptConditions([{ ...ready, more: long }])).toEqual([ready]);
    expect(keptConditions([{ ...ready, message: long }])[0]?.message).toHaveLength(1024);
  });

  it.each<[string, unknown]>([
    ["a status that there is not", { ...ready, status: "Perhaps" }],
    ["a type that is no name", { ...ready, type: "a b" }],
    ["a long type", { ...ready, type: long }],
    ["no reason", { ...ready, reason: "" }],
    ["a long reason", { ...ready, reason: long }],
    ["a date that is none", { ...ready, lastTransitionTime: "now" }],
    ["a message that is no text", { ...ready, message: 1 }],
    ["a negative generation", { ...ready, observedGeneration: -1 }],
    ["nothing", null],
    ["a text", long],
  ])("are left out that have %s", (_, said) => expect(keptConditions([said, ready])).toEqual([ready]));

  it("are 32 at most, and one of each type", () => {
    expect(keptConditions([ready, { ...ready, status: "False" }])).toEqual([ready]);
    const many = Array.from({ length: 1_000 }, (_, at) => ({ ...ready, type: `T${at}` }));
    expect(keptConditions(many)).toHaveLength(32);
    expect(keptConditions(long)).toEqual([]);
  });
});

it("the status of an Instance has what the kind has, and at most 64 KiB", () => {
  const status = {
    conditions: Array.from({ length: 1_000 }, (_, at) => ({ ...ready, type: `T${at}`, message: long })),
    networkInterfaces: Array.from({ length: 1_000 }, () => ({
      assignments: { networkIP: "10.0.0.1" },
      x: long,
    })),
    controller: { observedTemplateHash: "v1-a", x: long },
    more: long,
  };
  const kept = keptInstanceStatus(status);
  expect(JSON.stringify(kept).length).toBeLessThan(64 * 1024);
  expect(kept?.networkInterfaces?.[0]).toEqual({ assignments: { networkIP: "10.0.0.1" } });
  expect(kept?.controller).toEqual({ observedTemplateHash: "v1-a" });
  expect([keptInstanceStatus(undefined), keptInstanceStatus(long)]).toEqual([undefined, {}]);
});

it("the spec of an Instance has no template", () => {
  const spec = {
    runtime: long,
    controller: { templateHash: "v1-a", schedulingGates: [{ name: "Quota", x: long }, { name: long }] },
    location: { name: "dfw", namespace: "default", x: long },
  };
  expect(keptInstanceSpec({ spec } as unknown as Instance)).toEqual({
    controller: { templateHash: "v1-a", schedulingGates: [{ name: "Quota" }] },
    location: { name: "dfw", namespace: "default" },
  });
  expect(keptInstanceSpec({})).toEqual({});
});

it("the status of a deployment has numbers that are some, and nothing that only a hub says", () => {
  const said = { replicas: 2, readyReplicas: -1, desiredReplicas: "2", unheard: 2, since: "x", more: long };
  expect(keptDeploymentStatus({ ...said, conditions: [ready], location: { name: long } })).toEqual({
    replicas: 2,
    conditions: [ready],
  });
});

it("texts are those that are read, and short", () => {
  expect(keptTexts({ a: "1", b: 2, c: long, d: "4" }, ["a", "b", "c"])).toEqual({ a: "1" });
});
