import type { AdmissionEnv } from "@berth/host";
import { describe, expect, it } from "vitest";
import { configurationOf, SERVICE } from "../node/testing/configuration.ts";
import { architectureAdmission } from "./admission.ts";
import { sightOf } from "./testing/observations.ts";
import { type PolicyInit, policiesOf } from "./testing/policies.ts";

const rules = architectureAdmission({
  namespaceLabels: () => undefined,
  ownNamespace: undefined,
  observations: sightOf({}),
  architectureOf: () => undefined,
  now: () => 0,
  onPod: () => undefined,
});
const made = (policies: Readonly<Record<string, PolicyInit>>, env: Partial<AdmissionEnv> = {}) =>
  configurationOf(rules, policiesOf(policies), env);
const labels = {
  "app.kubernetes.io/name": "berth",
  "app.kubernetes.io/instance": "berth",
  "app.kubernetes.io/component": "architecture",
};
const podsOf = (policies: Readonly<Record<string, PolicyInit>>) => made(policies).webhooks?.[0];
const narrow = { mode: "Affinity" } as const;
const but = (...names: readonly string[]): object => ({
  key: "kubernetes.io/metadata.name",
  operator: "NotIn",
  values: ["berth-system", "kube-node-lease", "kube-public", "kube-system", ...names],
});
const notIgnored = { key: "berth.dev/architecture", operator: "NotIn", values: ["ignore"] };

describe("the webhooks of architecture policies", () => {
  it("ask for pods and new images of running ones, and for DaemonSets while a policy counts on taints", () => {
    const namesOf = (policies: Readonly<Record<string, PolicyInit>>): readonly string[] | undefined =>
      made(policies).webhooks?.map(({ name, failurePolicy }) => `${name} ${failurePolicy}`);
    const pods = "pods.architecture.berth.dev Ignore";
    const both = [pods, "daemonsets.architecture.berth.dev Ignore"];
    expect(namesOf({})).toEqual([]);
    const images = "images.architecture.berth.dev Ignore";
    expect(namesOf({ p: narrow })).toEqual([pods, images]);
    expect(namesOf({ p: {} })).toEqual([...both, images]);
    expect(namesOf({ p: narrow, q: { mode: "Both", taint: { nodes: "Leave" } } })).toEqual([...both, images]);
  });

  it("are reached at the Service, under the name and labels of the installation", () => {
    const { metadata, webhooks = [] } = made({ p: {} });
    expect(metadata).toEqual({ name: "berth-architecture", labels });
    const caBundle = Buffer.from("PEM").toString("base64");
    expect(webhooks.map(({ clientConfig }) => clientConfig)).toEqual([
      { service: { ...SERVICE.service, path: "/mutate-pod" }, caBundle },
      { service: { ...SERVICE.service, path: "/mutate-daemonset-architecture" }, caBundle },
      { service: { ...SERVICE.service, path: "/validate-pod-image" }, caBundle },
    ]);
    const second = made({ p: {} }, { installation: "two" });
    expect(second.metadata).toEqual({
      name: "berth-two-architecture",
      labels: { ...labels, "app.kubernetes.io/instance": "two" },
    });
  });

  it("refuse pods while nobody answers only when told so, and DaemonSets never", () => {
    const { webhooks } = made({ p: {} }, { spec: { failurePolicy: "Ignore", podFailurePolicy: "Fail" } });
    expect(webhooks?.map(({ failurePolicy }) => failurePolicy)).toEqual(["Fail", "Ignore", "Ignore"]);
  });

  it("ask about every pod but those of the system while there are taints, opted out or not", () => {
    const p = { excludedNamespaces: ["a"], namespaceSelector: { matchLabels: { b: "" } } };
    expect(podsOf({ p })?.namespaceSelector).toEqual({ matchExpressions: [but()] });
  });

  it("without taints spare the questions that one selector can spare", () => {
    const inB = { matchLabels: { b: "1" }, matchExpressions: [{ key: "c", operator: "Exists" as const }] };
    const one = { ...narrow, excludedNamespaces: ["x", "y"], namespaceSelector: inB };
    expect(podsOf({ one })?.namespaceSelector).toEqual({
      matchLabels: { b: "1" },
      matchExpressions: [but("x", "y"), notIgnored, { key: "c", operator: "Exists" }],
    });
    const two = { ...narrow, excludedNamespaces: ["y", "z"] };
    expect(podsOf({ one, two })?.namespaceSelector).toEqual({ matchExpressions: [but("y"), notIgnored] });
  });

  it("ask about pods that a policy selects, where every policy does", () => {
    const namesOf = (policies: Readonly<Record<string, PolicyInit>>): number | undefined =>
      podsOf(policies)?.matchConditions?.length;
    const selective = { ...narrow, podSelector: { matchLabels: { a: "1" } } };
    const counts = [{ selective }, { selective, narrow }, { selective, p: {} }].map(namesOf);
    expect(counts).toEqual([3, 2, 2]);
  });
});
