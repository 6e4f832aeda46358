import { describe, expect, it } from "vitest";
import { configurationOf, ENV, SERVICE } from "../node/testing/configuration.ts";
import { admissionPolicies, gateAdmission } from "./admission.ts";
import { gateList } from "./testing/gate-list.ts";

const gates = gateList({ network: {}, storage: { taint: { key: "example.com/storage" } } });
const labels = {
  "app.kubernetes.io/name": "berth",
  "app.kubernetes.io/instance": "berth",
  "app.kubernetes.io/component": "startup-gate",
};

describe("admission policies", () => {
  it("are one for each gate and one for DaemonSets, each with a binding and without a parameter", () => {
    const pairs = admissionPolicies(gates, ENV);
    const names = ["berth-gate-network", "berth-gate-storage", "berth-daemonset-tolerations"];
    expect(pairs.map(({ policy }) => policy.metadata)).toEqual(names.map((name) => ({ name, labels })));
    expect(pairs.map(({ binding }) => binding)).toEqual(
      names.map((name) => ({
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: "MutatingAdmissionPolicyBinding",
        metadata: { name, labels },
        spec: { policyName: name },
      })),
    );
    for (const { policy } of pairs) expect(policy.spec?.paramKind).toBeUndefined();
  });

  it("let in what cannot be decided unless told otherwise, and DaemonSets always", () => {
    const policiesOf = (failurePolicy: "Ignore" | "Fail"): unknown =>
      admissionPolicies(gates, { ...ENV, spec: { failurePolicy } }).map(
        ({ policy }) => policy.spec?.failurePolicy,
      );
    expect(policiesOf("Ignore")).toEqual(["Ignore", "Ignore", "Ignore"]);
    expect(policiesOf("Fail")).toEqual(["Fail", "Fail", "Ignore"]);
  });

  it("are none without gates, and have other names in another installation", () => {
    expect(admissionPolicies({ gates: [] }, ENV)).toEqual([]);
    const [first] = admissionPolicies(gates, { ...ENV, installation: "two" });
    expect(first?.policy.metadata?.name).toBe("berth-two-gate-network");
    expect(first?.binding.spec?.policyName).toBe("berth-two-gate-network");
    expect(first?.policy.metadata?.labels).toEqual({ ...labels, "app.kubernetes.io/instance": "two" });
  });
});

describe("the webhook configuration", () => {
  it("asks for nodes and DaemonSets, at the Service", () => {
    const { metadata, webhooks = [] } = configurationOf(gateAdmission, gates);
    expect(metadata).toEqual({ name: "berth-startup-gate", labels });
    const caBundle = Buffer.from("PEM").toString("base64");
    expect(webhooks.map(({ name, clientConfig }) => [name, clientConfig])).toEqual([
      ["nodes.startup-gate.berth.dev", { service: { ...SERVICE.service, path: "/mutate-node" }, caBundle }],
      [
        "daemonsets.startup-gate.berth.dev",
        { service: { ...SERVICE.service, path: "/mutate-daemonset" }, caBundle },
      ],
    ]);
    for (const webhook of webhooks) {
      expect(webhook).toMatchObject({ sideEffects: "None", timeoutSeconds: 2, failurePolicy: "Ignore" });
    }
  });

  it("is strict about nodes only, and at a URL, when told so", () => {
    const client = { url: "https://127.0.0.1:8443/" };
    const { webhooks } = configurationOf(gateAdmission, gates, { client, spec: { failurePolicy: "Fail" } });
    expect(webhooks?.map(({ failurePolicy }) => failurePolicy)).toEqual(["Fail", "Ignore"]);
    expect(webhooks?.map(({ clientConfig }) => clientConfig.url)).toEqual([
      "https://127.0.0.1:8443/mutate-node",
      "https://127.0.0.1:8443/mutate-daemonset",
    ]);
  });

  it("asks about every node rather than with a condition that the API server would refuse", () => {
    const values = Array.from({ length: 32 }, (_, at) => `v${at}`.padEnd(63, "x"));
    const nodeSelector = { matchExpressions: [{ key: "k", operator: "In" as const, values }] };
    const many = (count: number): number | undefined => {
      const inits = Array.from({ length: count }, (_, at) => [`g${at}`, { nodeSelector }] as const);
      const made = configurationOf(gateAdmission, gateList(Object.fromEntries(inits)));
      return made.webhooks?.[0]?.matchConditions?.length;
    };
    expect(many(5)).toBe(1);
    expect(many(50)).toBe(0);
  });

  it("has no webhooks without gates", () => {
    expect(configurationOf(gateAdmission, { gates: [] }).webhooks).toEqual([]);
  });
});
