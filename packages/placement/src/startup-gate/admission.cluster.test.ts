/**
 * The policies of startup gates on a real API server: what a node looks like once it is created. A cluster of its own, as
 * policies are about all nodes. Nodes and DaemonSets are only ever created in a dry run, which goes through admission too.
 */

import { applyPatch } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  isApiError,
  type KubeClient,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Node,
  namespaces,
  nodes,
  type Taint,
  type Toleration,
} from "@berth/kube";
import { aNode, eventually, type NodeBuilder, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { configurationOf, ENV } from "../node/testing/configuration.ts";
import { tolerates } from "../node/tolerations.ts";
import { admissionPolicies, gateAdmission, TOLERATE_LABEL } from "./admission.ts";
import { admitNode } from "./admit.ts";
import { gateList } from "./testing/gate-list.ts";
import type { GateList } from "./tolerate.ts";

let cluster: TestCluster;
let client: KubeClient;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  client = cluster.client;
});

const inTree: Taint = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };
const original: Taint = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };

const someValue = fc.constantFrom("", "1", "2", "x-y_z.1");
const someTaint = fc.record({
  key: fc.constantFrom("a", "b", "example.com/t", "node-role.kubernetes.io/master"),
  value: someValue,
  effect: fc.constantFrom("NoSchedule", "NoExecute", "PreferNoSchedule"),
});

/** One for each kind of selector, each with a taint of its own. */
const manyGates = Object.fromEntries(
  [
    {},
    { matchLabels: { a: "1" } },
    { matchLabels: { a: "", b: "2" } },
    { matchLabels: { constructor: "1" } },
    { matchExpressions: [{ key: "a", operator: "In" as const, values: ["1", "2"] }] },
    { matchExpressions: [{ key: "a", operator: "In" as const, values: [""] }] },
    { matchExpressions: [{ key: "b", operator: "NotIn" as const, values: ["", "1"] }] },
    { matchExpressions: [{ key: "example.com/c", operator: "Exists" as const }] },
    { matchExpressions: [{ key: "constructor", operator: "DoesNotExist" as const }] },
    {
      matchLabels: { a: "1" },
      matchExpressions: [
        { key: "b", operator: "NotIn" as const, values: ["2"] },
        { key: "b", operator: "Exists" as const },
      ],
    },
  ].flatMap((nodeSelector, at) =>
    (["Skip", "Include"] as const).map((controlPlane) => {
      const key = at === 0 ? "a" : `example.com/t${at === 1 ? "" : at}`;
      const effect = controlPlane === "Skip" ? ("NoSchedule" as const) : ("NoExecute" as const);
      const taint = { key, value: at === 2 ? "" : "1", effect };
      const except = { matchLabels: at < 4 ? { a: "1", b: "2" } : { b: "1" } };
      return [
        `gate-${at}-${controlPlane.toLowerCase()}`,
        { nodeSelector, controlPlane, taint, ...(at % 2 === 1 && { admissionExcept: except }) },
      ];
    }),
  ),
);

const tolerationCases: readonly Toleration[] = [
  { key: "startup.k8s.io/initializing", operator: "Equal", value: "wait", effect: "NoSchedule" },
  { key: "startup.k8s.io/initializing", value: "wait" },
  { key: "startup.k8s.io/initializing", operator: "Equal", value: "other", effect: "NoSchedule" },
  { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoExecute" },
  { operator: "Exists", effect: "NoExecute" },
  { key: "example.com/b", operator: "Exists", effect: "NoExecute", tolerationSeconds: 60 },
];

describe("policies of startup gates on an API server", () => {
  it("put the taint on a node once, behind those that stand", async () => {
    await using _ = await inForce(gateList({ a: {} }));
    expect(await taintsOf(aNode("plain"))).toEqual([inTree, original]);
    const other: Taint = { key: "example.com/a", value: "1", effect: "NoExecute" };
    expect(await taintsOf(aNode("tainted").tainted(other))).toEqual([other, inTree, original]);
    expect(await taintsOf(aNode("kubelet").tainted(original))).toEqual([original, inTree]);
  });

  it("give a taint that stands with another value the value of the gate", async () => {
    await using _ = await inForce(gateList({ a: {} }));
    const { value: _value, ...without } = original;
    const elsewhere: Taint = { ...original, effect: "NoExecute" };
    const node = aNode("other").tainted(elsewhere, { ...original, value: "mine" });
    expect(await taintsOf(node)).toEqual([elsewhere, original, inTree]);
    expect(await taintsOf(aNode("none").tainted(without))).toEqual([original, inTree]);
  });

  it("leave nodes of the control plane alone, unless the gate includes them", async () => {
    const taint = { key: "example.com/all" };
    await using _ = await inForce(gateList({ skip: {}, include: { controlPlane: "Include", taint } }));
    const all: Taint = { key: "example.com/all", value: "wait", effect: "NoSchedule" };
    for (const key of ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]) {
      expect(await taintsOf(aNode("label").labelled({ [key]: "" }))).toEqual([inTree, all]);
      const tainted: Taint = { key, effect: "NoExecute" };
      expect(await taintsOf(aNode("taint").tainted(tainted))).toEqual([tainted, inTree, all]);
    }
    // In which order policies run is not said anywhere.
    expect(sorted(await taintsOf(aNode("worker")))).toEqual(sorted([inTree, original, all]));
  });

  it("do to any node what the webhook would do", async () => {
    const gates = gateList(manyGates);
    await using _ = await inForce(gates);
    const node = fc
      .record({
        labels: fc.dictionary(fc.constantFrom("a", "b", "constructor", "example.com/c"), someValue),
        taints: fc.uniqueArray(someTaint, {
          maxLength: 5,
          selector: ({ key, effect }) => `${key}:${effect}`,
        }),
      })
      .map(({ labels, taints }) =>
        aNode("any")
          .labelled(labels)
          .tainted(...taints),
      );
    await fc.assert(
      fc.asyncProperty(node, async (builder) => {
        const seen = { ...builder.build(), spec: { taints: [...taintsIn(builder.build()), inTree] } };
        const expected = taintsIn(applyPatch(seen, admitNode(gates, seen)) as Node).map(withoutEmptyValue);
        // In which order policies run is not said anywhere.
        expect(sorted(await taintsOf(builder))).toEqual(sorted(expected));
      }),
      { numRuns: 150 },
    );
  });

  it("take whatever a gate says for nothing but text", async () => {
    const hostile = ['"', "\\", '"] || true || "', "\n", "${x}", "ü", "😀", "\u0000", "'''", '\\") || (true'];
    const gates = hostile.map((text, at) => [
      `gate-${at}`,
      {
        taint: { key: `example.com/t${at}` },
        nodeSelector: {
          matchLabels: { [text]: text },
          matchExpressions: [{ key: text, operator: "In" as const, values: [text, "b"] }],
        },
      },
    ]);
    await using _ = await inForce(gateList({ ...Object.fromEntries(gates), last: {} }));
    expect(await taintsOf(aNode("any").labelled({ a: "b" }))).toEqual([inTree, original]);
  });

  it("rest while their bindings are gone, and act again once these are back", async () => {
    const pairs = admissionPolicies(gateList({ a: {} }), ENV);
    await using _ = await inForce(gateList({ a: {} }));
    for (let round = 0; round < 2; round += 1) {
      for (const { binding } of pairs)
        await client.delete(mutatingAdmissionPolicyBindings, { name: binding.metadata?.name ?? "" });
      await eventually(async () => expect(await taintsOf(aNode("free"))).toEqual([inTree]));
      for (const { binding } of pairs) await client.create(mutatingAdmissionPolicyBindings, binding);
      await eventually(async () => expect(await taintsOf(aNode("held"))).toEqual([inTree, original]));
    }
  });
});

describe("policy for DaemonSets on an API server", () => {
  const gates = gateList({ a: {}, b: { taint: { key: "example.com/b", effect: "NoExecute" } } });
  const ours: readonly Toleration[] = [
    { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoSchedule" },
    { key: "example.com/b", operator: "Exists", effect: "NoExecute" },
  ];
  const other: Toleration = { key: "example.com/own", operator: "Exists" };

  it("lets new ones of opted-in namespaces tolerate all gates, once, and no others", async () => {
    await using _ = await inForce(gates);
    await using namespace = await makeNamespace("opted-in", { [TOLERATE_LABEL]: "true" });
    await using outside = await makeNamespace("outside", { [TOLERATE_LABEL]: "false" });
    const create = async (tolerations: readonly Toleration[], to = namespace): Promise<unknown> =>
      tolerationsOf(
        await client.create(daemonSets, daemonSet(tolerations), { namespace: to.name, dryRun: true }),
      );
    expect(await create([])).toEqual(ours);
    expect(await create([other])).toEqual([other, ...ours]);
    expect(await create(ours)).toEqual(ours);
    expect(await create([{ operator: "Exists" }])).toEqual([{ operator: "Exists" }]);
    expect(await create([], outside)).toBeUndefined();
    for (const toleration of tolerationCases) {
      const given = (await create([toleration])) as readonly Toleration[];
      const missing = ours.filter(({ key = "", effect = "" }) => {
        return !tolerates([toleration], { key, effect, value: "wait" });
      });
      expect(given).toEqual([toleration, ...missing]);
    }
  });

  it("starts no roll-out, and stays with a client that sends what it sent before", async () => {
    await using namespace = await makeNamespace("updates", { [TOLERATE_LABEL]: "true" });
    const of = { namespace: namespace.name, name: "ds" };
    await client.create(daemonSets, daemonSet([other]), { namespace: namespace.name });
    await using _ = await inForce(gates);
    const patch = (body: object): Promise<DaemonSet> =>
      client.patch(daemonSets, of, { type: "merge", body }, {});
    const pod = (spec: object): object => ({ spec: { template: { spec } } });
    expect(tolerationsOf(await patch({ metadata: { labels: { touched: "1" } } }))).toEqual([other]);
    const rolled = await patch({ spec: { template: { metadata: { annotations: { rolled: "1" } } } } });
    expect(tolerationsOf(rolled)).toEqual([other, ...ours]);
    const again = await patch(pod({ tolerations: [other] }));
    expect(tolerationsOf(again)).toEqual([other, ...ours]);
    expect(again.metadata?.generation).toBe(rolled.metadata?.generation);
  });
});

describe("webhook configuration on an API server", () => {
  const gates = gateList(manyGates);

  it.each([
    ["a Service", { service: { namespace: "kube-system", name: "node-startup-webhook", port: 443 } }],
    ["a URL", { url: "https://127.0.0.1:8443/" }],
  ])("is accepted with all conditions, at %s", async (_, where) => {
    const made = configurationOf(gateAdmission, gates, { client: where, ca: cluster.ca });
    const stored = await client.create(mutatingWebhookConfigurations, made, { dryRun: true });
    expect(stored.webhooks?.map(({ matchConditions }) => matchConditions?.length)).toEqual([1, 2]);
  });
});

function daemonSet(tolerations: readonly Toleration[]): DaemonSet {
  const labels = { app: "ds" };
  const spec = { containers: [{ name: "main", image: "example.com/a:1" }], tolerations };
  return {
    metadata: { name: "ds" },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

function tolerationsOf({ spec }: DaemonSet): readonly Toleration[] | undefined {
  return spec?.template.spec?.tolerations;
}

async function makeNamespace(
  name: string,
  labels: Readonly<Record<string, string>>,
): Promise<AsyncDisposable & { readonly name: string }> {
  await client.create(namespaces, { metadata: { name, labels } });
  return { name, [Symbol.asyncDispose]: () => client.delete(namespaces, { name }) };
}

function taintsIn(node: Node): readonly Taint[] {
  return node.spec?.taints ?? [];
}

/** The taints of the node as it would be stored. */
async function taintsOf(node: NodeBuilder): Promise<readonly Taint[]> {
  return taintsIn(await client.create(nodes, node.build(), { dryRun: true }));
}

function sorted(taints: readonly Taint[]): readonly Taint[] {
  const textOf = ({ key, effect }: Taint): string => `${key}:${effect}`;
  return taints.toSorted((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
}

/** As Go writes it. */
function withoutEmptyValue({ value, ...taint }: Taint): Taint {
  return value === undefined || value === "" ? taint : { ...taint, value };
}

let rounds = 0;

/**
 * Makes the policies, and resolves when they act. The API server learns of policies, and of bindings, in
 * their order: once it knows a last pair of a new name it knows all before. Disposing deletes them, and resolves when
 * the API server has forgotten the last one.
 */
async function inForce({ gates }: GateList): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const probe = `probe-${(rounds += 1)}`;
  const key = `test.berth.dev/${probe}`;
  const probing = gateList({ [probe]: { taint: { key }, nodeSelector: { matchLabels: { [key]: "" } } } });
  const isProbed = async (): Promise<boolean> => {
    const taints = await taintsOf(aNode("probe").labelled({ [key]: "" }));
    return taints.some((taint) => taint.key === key);
  };
  const pairs = [...admissionPolicies({ gates }, ENV), ...admissionPolicies(probing, ENV).slice(0, 1)];
  owned.defer(async () => {
    for (const { policy } of pairs) {
      const name = policy.metadata?.name ?? "";
      await client.delete(mutatingAdmissionPolicyBindings, { name }).catch(ifNotFound);
      await client.delete(mutatingAdmissionPolicies, { name }).catch(ifNotFound);
    }
    await eventually(async () => expect(await isProbed()).toBe(false));
  });
  for (const { policy, binding } of pairs) {
    await client.create(mutatingAdmissionPolicies, policy);
    await client.create(mutatingAdmissionPolicyBindings, binding);
  }
  await eventually(async () => expect(await isProbed()).toBe(true));
  return owned.move();
}

function ifNotFound(error: unknown): void {
  if (!isApiError(error, "notFound")) throw error;
}
