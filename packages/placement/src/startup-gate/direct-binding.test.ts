import type { Pod, Toleration } from "@berth/kube";
import { aNode, aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { configurationOf } from "../node/testing/configuration.ts";
import { compileGates } from "./compile.ts";
import {
  admitDirectBinding,
  type DirectBindingQuestion,
  directBindingAdmission,
  refusingGates,
} from "./direct-binding.ts";
import { startupGateSpec } from "./document.ts";
import type { Gates } from "./gate.ts";

const KEY = "startup.k8s.io/initializing";
const held = aNode("held").tainted(`${KEY}=wait:NoSchedule`).build();
const free = aNode("free").build();

function gatesOf(spec: object = {}): Gates {
  const document = {
    name: "g",
    spec: startupGateSpec.parse({ minimumHold: "1s", directBinding: "Refuse", ...spec }),
  };
  return compileGates({ sources: [{ source: "cluster", documents: [document] }] });
}

const tolerating = (tolerations: readonly Toleration[]) => (pod: Pod) =>
  ({ ...pod, spec: { ...pod.spec, tolerations } }) as Pod;
const on = (node: string): Pod => aPod("p").on(node).build();
const create = (object: unknown): DirectBindingQuestion => ({
  kind: { kind: "Pod" },
  operation: "CREATE",
  object,
});
const bind = (node: unknown, name = "waiting"): DirectBindingQuestion => ({
  kind: { kind: "Binding" },
  operation: "CREATE",
  namespace: "default",
  name,
  object: { metadata: { name }, target: { kind: "Node", name: node } },
});
const ask = (
  question: DirectBindingQuestion,
  { gates = gatesOf(), tolerations = [] as readonly Toleration[] } = {},
) =>
  admitDirectBinding(gates, question, {
    node: (name) => [held, free].find(({ metadata }) => metadata?.name === name),
    pod: (_, name) => (name === "waiting" ? tolerating(tolerations)(aPod(name).build()) : undefined),
  }).allowed;

const EXISTS: Toleration = { key: KEY, operator: "Exists" };
const equal = (value: string): Toleration => ({ key: KEY, value, effect: "NoSchedule" });

describe("I-14 a pod that names its node", () => {
  it.each<[string, DirectBindingQuestion, boolean]>([
    ["which is held", create(on("held")), false],
    ["which is not held", create(on("free")), true],
    ["which is not known", create(on("new")), true],
    ["which is held, and tolerates the gate", create(tolerating([EXISTS])(on("held"))), true],
    ["which is held, and tolerates its value", create(tolerating([equal("wait")])(on("held"))), true],
    ["which is held, and tolerates another value", create(tolerating([equal("other")])(on("held"))), false],
    ["of a DaemonSet", create(aPod("p").on("held").ofDaemonSet("ds", "u").build()), true],
    [
      "as a mirror",
      create({ ...on("held"), metadata: { annotations: { "kubernetes.io/config.mirror": "x" } } }),
      true,
    ],
    ["not at all", create(aPod("p").build()), true],
    ["in an update", { ...create(on("held")), operation: "UPDATE" }, true],
    ["in an object of no shape", create({ spec: { nodeName: "held", tolerations: [null, 7] } }), false],
    ["in no object", create(null), true],
  ])("%s", (_, question, allowed) => expect(ask(question)).toBe(allowed));

  it("is told which gate holds the node, and what to do", () => {
    const answer = admitDirectBinding(gatesOf(), create(on("held")), {
      node: () => held,
      pod: () => undefined,
    });
    expect(answer).toEqual({
      allowed: false,
      message: `the startup gate cluster/g holds the node held, and the pod does not tolerate its taint ${KEY}:NoSchedule: let the scheduler place the pod, or add the toleration`,
    });
  });

  it("is refused only by gates that ask for it, select the node and are in force", () => {
    for (const spec of [
      { directBinding: "Allow" },
      { dryRun: true },
      { nodeSelector: { matchLabels: { a: "b" } } },
    ])
      expect(ask(create(on("held")), { gates: gatesOf(spec) })).toBe(true);
    expect([gatesOf(), gatesOf({ dryRun: true })].map((it) => refusingGates(it).length)).toEqual([1, 0]);
  });
});

describe("I-14 a binding", () => {
  it.each<[string, DirectBindingQuestion, readonly Toleration[], boolean]>([
    ["to a held node", bind("held"), [], false],
    ["to a held node that the pod tolerates", bind("held"), [EXISTS], true],
    ["to another node", bind("free"), [], true],
    ["of a pod that is not known", bind("held", "unknown"), [], true],
    ["to nothing", bind(undefined), [], true],
  ])("%s", (_, question, tolerations, allowed) => expect(ask(question, { tolerations })).toBe(allowed));
});

describe("I-14 the webhook", () => {
  it("validates, is open by default, and asks about no system namespace and no binding of the scheduler", () => {
    const rules = directBindingAdmission({ node: () => undefined, pod: () => undefined });
    const { metadata, webhooks = [] } = configurationOf(rules, gatesOf(), { namespace: "own" });
    expect(metadata?.name).toBe("berth-direct-binding");
    expect(webhooks.map(({ rules, failurePolicy }) => [rules?.[0]?.resources, failurePolicy])).toEqual([
      [["pods"], "Ignore"],
      [["pods/binding", "bindings"], "Ignore"],
    ]);
    for (const { namespaceSelector } of webhooks)
      expect(namespaceSelector?.matchExpressions?.[0]?.values).toEqual([
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "own",
      ]);
    expect(webhooks[1]?.matchConditions?.map(({ expression }) => expression)).toEqual([
      'request.userInfo.username != "system:kube-scheduler"',
    ]);
  });
});
