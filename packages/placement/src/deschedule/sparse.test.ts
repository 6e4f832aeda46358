/** Objects without the fields that an API server may leave out: each is decided, and none throws. */
import type { Affinity, Node, Pod, PodAffinityTerm, PodSpec } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { budgetProblem } from "./budgets.ts";
import { decideEvictions } from "./decide.ts";
import { findFit, type Ground } from "./fit.ts";
import { asOneContainer } from "./fit-resources.ts";
import { asksForAny, judge } from "./judge.ts";
import { EvictionLedger } from "./ledger.ts";
import { anEviction, aPolicy, aView, GPU, lostPod, observations } from "./testing/lost.ts";

const ZONE = "topology.kubernetes.io/zone";
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const term: PodAffinityTerm = { topologyKey: ZONE, labelSelector: {} };
const having = (spec: Partial<PodSpec>): Pod => ({ spec: { containers: [], ...spec } });
const apart = having({ affinity: { podAntiAffinity: { [REQUIRED]: [term] } } });
const wide = having({
  affinity: { podAntiAffinity: { [REQUIRED]: [{ topologyKey: ZONE, namespaceSelector: {} }] } },
});
const empty: readonly Affinity[] = [{}, { nodeAffinity: {} }, { podAffinity: {} }, { podAntiAffinity: {} }];
const others: readonly Pod[] = [
  {},
  having({}),
  having({ containers: [{ name: "a" }, { name: "b", resources: {} }], initContainers: [{ name: "i" }] }),
  having({ resources: {}, overhead: {} }),
  apart,
  wide,
  ...empty.map((affinity) => having({ affinity })),
];
const room = (labels?: Readonly<Record<string, string>>, more: Record<string, string> = {}): Node => ({
  ...(labels && { metadata: { labels } }),
  status: { allocatable: { pods: "99", ...more } },
});

function placeOf(pod: Pod, node: Node, around: readonly Pod[] = others): string | undefined {
  const ground: Ground = { nodes: [node], podsOn: () => around, namespaceLabels: () => ({}) };
  const found = findFit(pod, "True", ground);
  return "reason" in found ? found.message.replace(/^.*: 1 /, "") : undefined;
}

describe("a place for a pod", () => {
  const requests = { cpu: "1" };
  const spread = { topologyKey: ZONE, maxSkew: 1, whenUnsatisfiable: "DoNotSchedule" } as const;
  it.each<[string, Pod, Node, string | undefined]>([
    ["on a node without a field", {}, {}, "has no place for one more pod"],
    ["on a node without amounts", {}, { status: {} }, "has no place for one more pod"],
    ["of a pod without a field", {}, room(), undefined],
    ["of one with anti-affinity, without the label", apart, room(), undefined],
    ["of one that a wide term is about", {}, room({ [ZONE]: "a" }), undefined],
    [
      "of one with affinity",
      having({ affinity: { podAffinity: { [REQUIRED]: [term] } } }),
      room(),
      `lacks label ${ZONE}`,
    ],
    ["of one that spreads", having({ topologySpreadConstraints: [spread] }), room(), `lacks label ${ZONE}`],
    [
      "of one that spreads, with the label",
      having({ topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: { a: "b" } } }] }),
      room({ [ZONE]: "a" }),
      undefined,
    ],
    [
      "without cpu",
      having({ containers: [{ name: "a", resources: { requests } }] }),
      room(),
      "has too little free cpu",
    ],
    [
      "with cpu",
      having({ containers: [{ name: "a", resources: { requests } }] }),
      room({}, requests),
      undefined,
    ],
    [
      "with memory for the pod as a whole",
      having({ containers: [], resources: { requests: { memory: "1" } } }),
      room({}, { memory: "1" }),
      undefined,
    ],
    [
      "without memory for its overhead",
      having({ overhead: { memory: "2" } }),
      room({}, { memory: "1" }),
      "has too little free memory",
    ],
    [
      "of one with a port of the node",
      having({ containers: [{ name: "a", ports: [{ containerPort: 1, hostPort: 1 }] }] }),
      room(),
      undefined,
    ],
  ])("%s", (_, pod, node, expected) => expect(placeOf(pod, node)).toBe(expected));

  it("is no other than its own", () => {
    const node = { ...room(), metadata: { name: "n1" } };
    expect(placeOf(having({ nodeName: "n1" }), node)).toBe("there is no other node");
  });
});

describe("a pod as one container", () => {
  const of = (pod: Pod): unknown => asOneContainer(pod).resources?.requests;
  it.each<[string, Pod, object]>([
    ["without a field", {}, {}],
    ["without requests", others[2] as Pod, {}],
    [
      "with a sidecar, which runs beside the others",
      having({
        containers: [{ name: "a", resources: { requests: { cpu: "1" } } }],
        initContainers: [{ name: "s", restartPolicy: "Always", resources: { requests: { cpu: "2" } } }],
      }),
      { cpu: "3000m" },
    ],
    [
      "whose whole says memory and huge pages, but not what a device counts",
      having({
        containers: [
          {
            name: "a",
            resources: { requests: { memory: "9", "hugepages-2Mi": "9", "example.com/gpu": "9" } },
          },
        ],
        resources: { requests: { memory: "1", "hugepages-2Mi": "2", "example.com/gpu": "3" } },
      }),
      { memory: "1", "hugepages-2Mi": "2", "example.com/gpu": "9" },
    ],
  ])("%s", (_, pod, expected) => expect(of(pod)).toEqual(expected));

  it("keeps the ports of containers and sidecars on the node", () => {
    const at = (hostPort: number) => [{ containerPort: 1, hostPort }];
    const pod = having({
      containers: [{ name: "a", ports: at(1) }, { name: "b" }],
      initContainers: [
        { name: "s", restartPolicy: "Always", ports: at(2) },
        { name: "i", ports: at(3) },
      ],
    });
    expect(asOneContainer(pod).ports?.map(({ hostPort }) => hostPort)).toEqual([1, 2]);
  });
});

describe("a pod on a wrong node", () => {
  const policy = aPolicy({ keys: ["*"], everything: true, taints: ["*"], include: ["Bare"] });
  const selects = { [GPU]: "true" };
  it.each<[string, Pod, Node, string]>([
    ["that has no field", {}, {}, "outside"],
    ["that asks for nothing", having({ nodeName: "n1" }), {}, "fits"],
    ["whose node has no field", having({ nodeName: "n1", nodeSelector: selects }), {}, "lost"],
    [
      "whose node has a taint",
      having({ nodeName: "n1" }),
      { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } },
      "lost",
    ],
    ["with an empty affinity", having({ nodeName: "n1", affinity: {} }), {}, "fits"],
  ])("%s", (_, pod, node, state) => expect(judge(pod, node, policy, observations)).toMatchObject({ state }));

  it.each<[string, Pod, boolean]>([
    ["nothing", {}, false],
    ["it by its selector", having({ nodeSelector: selects }), true],
    ["another by its selector", having({ nodeSelector: { other: "true" } }), false],
    ["it in one of its terms", affine([{}, { matchExpressions: [key("other"), key(GPU)] }]), true],
    ["another in its terms", affine([{ matchExpressions: [key("other")] }]), false],
  ])("asks for %s", (_, pod, asks) => expect(asksForAny(pod, new Set([GPU]))).toBe(asks));
});

function key(of: string) {
  return { key: of, operator: "Exists" };
}

function affine(nodeSelectorTerms: object[]): Pod {
  return having({ affinity: { nodeAffinity: { [REQUIRED]: { nodeSelectorTerms } } } });
}

describe("the eviction of a pod without a field", () => {
  it("is decided, and waits for others of its owner", () => {
    const of = (pod: Pod, name: string) => lostPod(pod, { name });
    const both = [of({}, "b"), of({ metadata: { uid: "a" } }, "a")];
    const { standings } = decideEvictions(aView(both, { pods: [{}] }));
    expect(standings.map(({ lost: { name }, reason }) => `${name} ${reason}`)).toEqual([
      "a PodDescheduled",
      "b PodDescheduled",
    ]);
  });

  it("is remembered until the pod is gone", () => {
    const ledger = new EvictionLedger();
    ledger.begin(anEviction({}, { isAccepted: false }));
    ledger.observe(
      () => [{}, { metadata: {} }, { status: {} }],
      () => true,
      1,
    );
    expect([...ledger.inProgress.keys()]).toEqual(["/"]);
    ledger.accept("");
    ledger.forgetPolicies(new Set());
    ledger.observe(
      () => [],
      () => true,
      2,
    );
    expect(ledger.inProgress.size).toBe(0);
  });
});

describe("a budget without a field", () => {
  const running: Pod = { status: { phase: "Running" } };
  it.each<[string, Pod, string | undefined]>([
    ["keeps no pod without a status", {}, undefined],
    ["keeps no pod", running, undefined],
  ])("%s", (_, pod, expected) => expect(budgetProblem([{}])(pod)).toBe(expected));

  it("allows none while nothing is known of its pods", () => {
    expect(budgetProblem([{ spec: { selector: {} } }])(running)).toContain("allows 0 evictions now: 0 of 0");
  });
});
