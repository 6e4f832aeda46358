import { ownerLabels } from "@berth/host";
import { createSilentLogger } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { berthAs } from "../../api/group.ts";
import { configurationOf } from "../../node/testing/configuration.ts";
import type { Footprint } from "../footprint.ts";
import { footprintOf } from "../testing/footprints.ts";
import { waitAdmission } from "./admission.ts";

const rules = waitAdmission({
  observations: { namespaceLabels: () => undefined, driverOfClaim: () => undefined },
  log: createSilentLogger(),
});
const made = (footprints: readonly Footprint[]) => configurationOf(rules, { footprints, policy: {} });
const wait = { inject: "Webhook", container: { name: "wait", image: "busybox:1.36" }, port: 80 } as const;
const node = { label: { key: "x.test/agent" } };
const selected = (key: string) => ({ podSelector: { matchLabels: { [key]: "needed" } } });
const SPARED = ["berth-system", "kube-node-lease", "kube-public", "kube-system"];

describe("the webhook of footprints", () => {
  it("is there while a footprint has pods wait by it", () => {
    const others = [footprintOf({ workloads: [selected("a")], node })];
    expect(made(others).webhooks).toEqual([]);
    const { metadata, webhooks } = made([...others, footprintOf({ workloads: [selected("a")], node, wait })]);
    expect(metadata).toEqual({ name: "berth-footprint", labels: ownerLabels(berthAs("berth"), "footprint") });
    expect(webhooks).toMatchObject([
      {
        failurePolicy: "Ignore",
        sideEffects: "None",
        clientConfig: { service: { path: "/mutate-pod-footprint" } },
        rules: [{ operations: ["CREATE"], resources: ["pods"] }],
        namespaceSelector: { matchExpressions: [{ operator: "NotIn", values: SPARED }] },
      },
    ]);
  });

  it("asks only about pods that a workload selects", () => {
    const [webhook] =
      made([footprintOf({ workloads: [selected("a"), selected("b")], node, wait })]).webhooks ?? [];
    expect(webhook?.matchConditions).toEqual([
      {
        name: "selected",
        expression:
          '(object.metadata.?labels[?"a"].optMap(it, it in ["needed"]).orValue(false)) ||\n' +
          '(object.metadata.?labels[?"b"].optMap(it, it in ["needed"]).orValue(false))',
      },
    ]);
  });

  it("asks about all pods when one workload does not say which by labels", () => {
    const workloads = [selected("a"), { requests: ["gpu.test/x"] }];
    const [webhook] = made([footprintOf({ workloads, node, wait })]).webhooks ?? [];
    expect(webhook?.matchConditions).toEqual([]);
  });

  it("asks only about the namespaces of a single workload", () => {
    const one = { ...selected("a"), namespaceSelector: { matchLabels: { team: "a" } } };
    const of = (workloads: readonly object[]) =>
      made([footprintOf({ workloads, node, wait })]).webhooks?.[0]?.namespaceSelector;
    expect(of([one])).toMatchObject({ matchLabels: { team: "a" } });
    expect(of([one, selected("b")])?.matchLabels).toBeUndefined();
  });
});
