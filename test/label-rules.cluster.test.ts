/**
 * `LabelRule` on the whole product: objects of a real API server, a Berth in this process, and what users see of it.
 * What needs no API server is tested beside the rules in packages/placement.
 */
import { type BerthOptions, crds, type RunningBerth, startBerth } from "@berth/cli";
import { type Condition, customResourceDefinitions, events, nodes } from "@berth/kube";
import { CONFIRMED_ANNOTATION, confirmation, labelRuleSpec, labelRules } from "@berth/placement";
import { aNode, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";

let cluster: TestCluster;
let berths: AsyncDisposableStack;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  for (const crd of crds()) await cluster.client.apply(customResourceDefinitions, crd);
  await eventually(() => cluster.client.list(labelRules));
  berths = new AsyncDisposableStack();
});
afterEach(async () => {
  await berths.disposeAsync();
  berths = new AsyncDisposableStack();
  await cluster.client.deleteCollection(labelRules, {});
  await cluster.client.deleteCollection(nodes, {});
});

async function start(options: Partial<BerthOptions> = {}): Promise<RunningBerth> {
  const client = berths.use(cluster.connect({ userAgent: "berth/test", fieldManager: "berth" }));
  return berths.use(await startBerth({ client, ...options }));
}

const rule = (name: string, spec: object) =>
  cluster.client.create(labelRules, {
    apiVersion: "berth.dev/v1alpha1",
    kind: "LabelRule",
    metadata: { name },
    spec,
  });
const editRule = (name: string, spec: object) =>
  cluster.client.patch(labelRules, { name }, { type: "merge", body: { spec } });
const node = (name: string, labels: Readonly<Record<string, string>> = {}) =>
  cluster.client.create(nodes, aNode(name).labelled(labels).build());
const label = (name: string, labels: Readonly<Record<string, string | null>>) =>
  cluster.client.patch(nodes, { name }, { type: "merge", body: { metadata: { labels } } });
const labelsOf = async (name: string): Promise<Readonly<Record<string, string>>> =>
  (await cluster.client.get(nodes, { name })).metadata?.labels ?? {};

/** What `berth confirm` does. */
async function confirm(name: string): Promise<void> {
  const stored = labelRuleSpec.parse((await cluster.client.get(labelRules, { name })).spec);
  const annotations = { [CONFIRMED_ANNOTATION]: confirmation(stored, Date.now()) };
  await cluster.client.patch(labelRules, { name }, { type: "merge", body: { metadata: { annotations } } });
}

/** Resolves once the node's label stands as told; `undefined` for not at all. */
async function becomes(name: string, key: string, value: string | undefined): Promise<void> {
  await eventually(async () => expect((await labelsOf(name))[key]).toBe(value));
}

/** Resolves once the rule's status says so. */
async function says(
  name: string,
  status: object,
  conditions: Readonly<Record<string, object>> = {},
): Promise<void> {
  await eventually(async () => {
    const found = (await cluster.client.get(labelRules, { name })).status;
    expect(found).toMatchObject(status);
    const byType = Object.fromEntries((found?.conditions ?? []).map((it: Condition) => [it.type, it]));
    expect(byType).toMatchObject(conditions);
  });
}

const gpu = { match: { all: [{ key: "gpu.present" }] }, labels: [{ key: "example.com/gpu" }] };
const atOnce = { removalDelay: "0s", breaker: { percent: 100 } };

describe("a LabelRule", () => {
  it("L-B2 sets, changes and removes labels, live, and says so in its status", async () => {
    await node("n1", { "gpu.present": "1" });
    await node("n2");
    await start();
    await rule("gpu", { ...gpu, ...atOnce });
    await becomes("n1", "example.com/gpu", "true");
    await says(
      "gpu",
      { observedGeneration: 1, matchedNodes: 1, labelledNodes: 1, pendingRemovals: 0, firstNodes: ["n1"] },
      { Ready: { status: "True", reason: "RuleInForce", observedGeneration: 1 } },
    );
    await editRule("gpu", { labels: [{ key: "example.com/gpu", value: "yes" }] });
    await becomes("n1", "example.com/gpu", "yes");
    await label("n1", { "gpu.present": null });
    await becomes("n1", "example.com/gpu", undefined);
    await label("n2", { "gpu.present": "x" });
    await becomes("n2", "example.com/gpu", "yes");
    await cluster.client.delete(labelRules, { name: "gpu" });
    await becomes("n2", "example.com/gpu", undefined);
    expect(await labelsOf("n2")).toHaveProperty(["gpu.present"], "x");
  });

  it("L-B10 patches exactly the nodes that it matches, once, and none after a restart", async () => {
    const names = Array.from({ length: 60 }, (_, index) => `n${index}`);
    for (const [index, name] of names.entries()) await node(name, index < 50 ? { "gpu.present": "1" } : {});
    const first = await start();
    await eventually(() => expect(first.nodes.size).toBe(60));
    const mark = await cluster.audit.mark();
    await rule("gpu", gpu);
    await says("gpu", { matchedNodes: 50, labelledNodes: 50 });
    const patches = { userAgent: "berth/test", verb: "patch", resource: "nodes" };
    expect(await cluster.audit.countSince(mark, patches)).toBe(50);
    await first[Symbol.asyncDispose]();
    const second = await cluster.audit.mark();
    await start();
    // Its answer to a change shows that it has seen everything.
    await label("n59", { "gpu.present": "1" });
    await becomes("n59", "example.com/gpu", "true");
    await says("gpu", { matchedNodes: 51 });
    expect(await cluster.audit.countSince(second, patches)).toBe(1);
  });

  it("L-B10 merges with another rule where they agree, and says where they do not", async () => {
    await node("n1", { "gpu.present": "1", "old.present": "1" });
    await rule("gpu", { ...gpu, ...atOnce });
    await rule("same", { ...gpu, match: { all: [{ key: "old.present" }] }, ...atOnce });
    await start();
    await becomes("n1", "example.com/gpu", "true");
    const message = "in force; example.com/gpu is also set by cluster/same";
    await says("gpu", {}, { Ready: { status: "True", reason: "RulesOverlap", message } });
    await editRule("same", { labels: [{ key: "example.com/gpu", value: "other" }] });
    // `kubectl wait --for=condition=Ready` must not succeed (I-5).
    const conflicting = { status: "False", reason: "RuleConflict" };
    await says("same", {}, { Conflicting: { status: "True", reason: "RuleConflict" }, Ready: conflicting });
    await says("gpu", {}, { Conflicting: { status: "True" }, Ready: conflicting });
    expect(await labelsOf("n1")).toHaveProperty(["example.com/gpu"], "true");
    await editRule("same", { labels: [{ key: "example.com/gpu", value: "true" }] });
    await eventually(async () => {
      const found = (await cluster.client.get(labelRules, { name: "gpu" })).status?.conditions ?? [];
      expect(found.map(({ type }) => type)).toEqual(["Ready"]);
    });
    await label("n1", { "gpu.present": null });
    await says("gpu", { matchedNodes: 0 });
    expect(await labelsOf("n1")).toHaveProperty(["example.com/gpu"], "true");
  });

  it("L-B8, L-B9 is refused, with its labels left as they are, when it has a fault that the server cannot see", async () => {
    await node("n1", { "gpu.present": "1" });
    await rule("gpu", { ...gpu, ...atOnce });
    const { metrics } = await start();
    await becomes("n1", "example.com/gpu", "true");
    await editRule("gpu", { match: { all: [{ key: "gpu.present", operator: "Matches", values: ["("] }] } });
    await says("gpu", {}, { Ready: { status: "False", reason: "RuleInvalid" } });
    await editRule("gpu", { match: { all: [{ key: "example.com/gpu" }] } });
    await says("gpu", {}, { Ready: { status: "False", reason: "CyclicRule" } });
    await rule("core", { match: {}, labels: [{ key: "kubernetes.io/os", value: "dos" }] });
    await says("core", {}, { Ready: { status: "False", reason: "ReservedLabelKey" } });
    const { body } = await metrics.expose();
    expect(body).toContain('berth_label_rule_problems{reason="ReservedLabelKey"} 1\n');
    expect(await labelsOf("n1")).toMatchObject({ "example.com/gpu": "true", "kubernetes.io/os": "linux" });
    await editRule("gpu", { match: { all: [{ key: "gpu.present" }] } });
    await says("gpu", {}, { Ready: { status: "True" } });
    await eventually(async () => {
      const { items } = await cluster.client.list(events, { fieldSelector: "reason=CyclicRule" });
      expect(items.filter(({ regarding }) => regarding?.name === "gpu")).toHaveLength(1);
    });
  });
});

describe("safety", () => {
  it("freezes removals when too many nodes would lose a label at once, until that is confirmed", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `n${index}`);
    for (const name of names) await node(name, { "gpu.present": "1" });
    // All of them lose it before the delay of any is over.
    const spec = { ...gpu, removalDelay: "1h", breaker: { percent: 10, nodes: 2 } };
    await rule("gpu", spec);
    await start();
    await says("gpu", { labelledNodes: 8 });
    for (const name of names.slice(0, 5)) await label(name, { "gpu.present": null });
    await says("gpu", { pendingRemovals: 5, labelledNodes: 8 });
    await editRule("gpu", { removalDelay: "1s" });
    await says(
      "gpu",
      { pendingRemovals: 5, labelledNodes: 8 },
      { RemovalsFrozen: { status: "True", reason: "RemovalsFrozen" } },
    );
    await confirm("gpu");
    for (const name of names.slice(0, 5)) await becomes(name, "example.com/gpu", undefined);
    await says("gpu", { pendingRemovals: 0, labelledNodes: 3, matchedNodes: 3 });
    expect(await labelsOf("n7")).toHaveProperty(["example.com/gpu"], "true");
  });

  it("L-B10 decides and counts in a dry run, and changes nothing", async () => {
    await node("n1", { "gpu.present": "1" });
    await rule("gpu", { ...gpu, dryRun: true, ...atOnce });
    await start();
    await says("gpu", { matchedNodes: 1, labelledNodes: 0 }, { Ready: { status: "True", reason: "DryRun" } });
    expect(await labelsOf("n1")).not.toHaveProperty(["example.com/gpu"]);
    await editRule("gpu", { dryRun: false });
    await becomes("n1", "example.com/gpu", "true");
    // Back on trial, its labels stay even where it no longer matches.
    await editRule("gpu", { dryRun: true, match: { all: [{ key: "no.such" }] } });
    await says("gpu", { matchedNodes: 0, labelledNodes: 1 });
    await cluster.client.delete(labelRules, { name: "gpu" });
    await becomes("n1", "example.com/gpu", undefined);
  });
});

// Last, as they take the CRD away.
describe("the CRD", () => {
  const reinstall = async (): Promise<void> => {
    for (const crd of crds()) await eventually(() => cluster.client.apply(customResourceDefinitions, crd));
    await eventually(() => cluster.client.list(labelRules));
  };

  it("does not take the labels with it when it is deleted, nor when it is installed again without its rules", async () => {
    for (const name of ["n1", "n2", "n3"]) await node(name, { "gpu.present": "1" });
    await rule("gpu", { ...gpu, ...atOnce });
    await rule("other", { match: {}, labels: [{ key: "example.com/other" }], ...atOnce });
    const first = await start();
    await says("gpu", { labelledNodes: 3 });
    await says("other", { labelledNodes: 3 });
    for (const crd of crds())
      await cluster.client.delete(customResourceDefinitions, { name: crd.metadata?.name ?? "" });
    await eventually(() => expect([...first.nodes.list()]).toHaveLength(3));
    await eventually(() => expect(cluster.client.list(labelRules)).rejects.toThrow(/not found/));
    await reinstall();
    await rule("gpu", { ...gpu, ...atOnce });
    // It is followed again: an answer to a change shows that everything before it was seen.
    await label("n1", { "gpu.present": null });
    await becomes("n1", "example.com/gpu", undefined);
    for (const name of ["n1", "n2", "n3"])
      expect(await labelsOf(name)).toHaveProperty(["example.com/other"], "true");
    await first[Symbol.asyncDispose]();
    await start();
    await label("n1", { "gpu.present": "1" });
    await becomes("n1", "example.com/gpu", "true");
    for (const name of ["n1", "n2", "n3"])
      expect(await labelsOf(name)).toHaveProperty(["example.com/other"], "true");
    // A rule that this process saw go was deleted on purpose.
    await cluster.client.delete(labelRules, { name: "gpu" });
    await becomes("n1", "example.com/gpu", undefined);
    expect(await labelsOf("n1")).toHaveProperty(["example.com/other"], "true");
  });
});
