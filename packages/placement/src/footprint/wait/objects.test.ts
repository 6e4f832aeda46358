import { describe, expect, it } from "vitest";
import { footprintOf } from "../testing/footprints.ts";
import { waitLabels, waitWebhook } from "./objects.ts";

const options = {
  client: { service: { namespace: "berth-system", name: "berth" } },
  ca: "PEM",
  namespace: "berth-system",
};
const wait = { inject: "Webhook", container: { name: "wait", image: "busybox:1.36" }, port: 80 } as const;
const node = { label: { key: "x.test/agent" } };
const selected = (key: string) => ({ podSelector: { matchLabels: { [key]: "needed" } } });
const SPARED = ["berth-system", "kube-node-lease", "kube-public", "kube-system"];

describe("the webhook of footprints", () => {
  it("is there while a footprint has pods wait by it", () => {
    const others = [footprintOf({ workloads: [selected("a")], node })];
    expect(waitWebhook(others, options).webhooks).toEqual([]);
    const { metadata, webhooks } = waitWebhook(
      [...others, footprintOf({ workloads: [selected("a")], node, wait })],
      options,
    );
    expect(metadata).toEqual({ name: "berth-footprint", labels: waitLabels() });
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
      waitWebhook([footprintOf({ workloads: [selected("a"), selected("b")], node, wait })], options)
        .webhooks ?? [];
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
    const [webhook] = waitWebhook([footprintOf({ workloads, node, wait })], options).webhooks ?? [];
    expect(webhook?.matchConditions).toEqual([]);
  });

  it("asks only about the namespaces of a single workload", () => {
    const one = { ...selected("a"), namespaceSelector: { matchLabels: { team: "a" } } };
    const of = (workloads: readonly object[]) =>
      waitWebhook([footprintOf({ workloads, node, wait })], options).webhooks?.[0]?.namespaceSelector;
    expect(of([one])).toMatchObject({ matchLabels: { team: "a" } });
    expect(of([one, selected("b")])?.matchLabels).toBeUndefined();
  });
});
