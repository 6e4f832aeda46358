/**
 * The policies of startup gates on a real API server: what a node looks like once it is created. A cluster of its own, as
 * policies are about all nodes. Nodes and DaemonSets are only ever created in a dry run, which goes through admission too.
 */

import { applyPatch } from "@berth/host";
import {
  type DaemonSet,
  daemonSets,
  type KubeClient,
  mutatingWebhookConfigurations,
  type Node,
  namespaces,
  type Taint,
  type Toleration,
} from "@berth/kube";
import { aNode, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { configurationOf } from "../node/testing/configuration.ts";
import { tolerates } from "../node/tolerations.ts";
import { gateAdmission, TOLERATE_LABEL } from "./admission.ts";
import { admitNode } from "./admit.ts";
import { gateList } from "./testing/gate-list.ts";
import { inForce, manyGates, sorted, taintsIn, taintsOf, withoutEmptyValue } from "./testing/policies.ts";

let cluster: TestCluster;
let client: KubeClient;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  client = cluster.client;
});

const inTree: Taint = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };
const original: Taint = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };

const someValue = fc.constantFrom("", "1", "2", "x-y_z.1");
const ROLES = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"] as const;
const someTaint = fc.record({
  key: fc.constantFrom("a", "b", "example.com/t", ...ROLES),
  value: someValue,
  effect: fc.constantFrom("NoSchedule", "NoExecute", "PreferNoSchedule"),
});

const tolerationCases: readonly Toleration[] = [
  { key: "startup.k8s.io/initializing", operator: "Equal", value: "wait", effect: "NoSchedule" },
  { key: "startup.k8s.io/initializing", value: "wait" },
  { key: "startup.k8s.io/initializing", operator: "Equal", value: "other", effect: "NoSchedule" },
  { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoExecute" },
  { operator: "Exists", effect: "NoExecute" },
  { key: "example.com/b", operator: "Exists", effect: "NoExecute", tolerationSeconds: 60 },
];

describe("policies of startup gates on an API server", () => {
  it("put the taint on a node once: behind those that stand, or in the place of one with another value", async () => {
    await using _ = await inForce(client, gateList({ a: {} }));
    const { value: _value, ...without } = original;
    const other: Taint = { key: "example.com/a", value: "1", effect: "NoExecute" };
    const elsewhere: Taint = { ...original, effect: "NoExecute" };
    const cases: readonly (readonly [stands: readonly Taint[], then: readonly Taint[]])[] = [
      [[], [inTree, original]],
      [[other], [other, inTree, original]],
      [[original], [original, inTree]],
      [
        [elsewhere, { ...original, value: "mine" }],
        [elsewhere, original, inTree],
      ],
      [[without], [original, inTree]],
    ];
    for (const [stands, then] of cases)
      expect(await taintsOf(client, aNode("n").tainted(...stands))).toEqual(then);
  });

  it("do to any node, of the control plane too, what the webhook would do", async () => {
    const gates = gateList(manyGates);
    await using _ = await inForce(client, gates);
    const node = fc
      .record({
        labels: fc.dictionary(fc.constantFrom("a", "b", "constructor", "example.com/c", ...ROLES), someValue),
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
        expect(sorted(await taintsOf(client, builder))).toEqual(sorted(expected));
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
    await using _ = await inForce(client, gateList({ ...Object.fromEntries(gates), last: {} }));
    expect(await taintsOf(client, aNode("any").labelled({ a: "b" }))).toEqual([inTree, original]);
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
    await using _ = await inForce(client, gates);
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
    await using _ = await inForce(client, gates);
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
