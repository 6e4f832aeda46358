import type { Container, Pod, PodAffinityTerm, TopologySpreadConstraint } from "@berth/kube";
import { aNode, aPod, type NodeBuilder, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type FitResult, findFit } from "./fit.ts";
import { slimPod } from "./pod-fields.ts";
import { builtGround } from "./testing/ground.ts";

const ZONE = "topology.kubernetes.io/zone";
const GPU = "example.com/gpu";

type Spec = NonNullable<Pod["spec"]>;
type Things = readonly (NodeBuilder | PodBuilder)[];

const node = (name: string) => aNode(name).zone("a").capacity({ cpu: "2", memory: "4Gi" });
const n1 = node("n1");
/** Takes no pod. */
const full = (name: string) => node(name).tainted("full:NoSchedule");
const lost = aPod("lost").on("home").labelled({ app: "web", rev: "1" });
/** A pod on a node that takes part in the decision only by what it says itself. */
const other = (on: string) => aPod(`on-${on}`).on(on).labelled({ app: "web", rev: "1" });

const having = (change: Partial<Spec>) => (pod: PodBuilder) =>
  pod.with((it) => ({ ...it, spec: { ...(it.spec as Spec), ...change } }));
const container = (cpu: string, more: Partial<Container> = {}): Container => ({
  name: "c",
  resources: { requests: { cpu } },
  ...more,
});
const term = (more: Partial<PodAffinityTerm> = {}): PodAffinityTerm => ({
  topologyKey: ZONE,
  labelSelector: { matchLabels: { app: "web" } },
  ...more,
});
const required = <T>(terms: T) => ({ requiredDuringSchedulingIgnoredDuringExecution: terms });
const near = (...terms: PodAffinityTerm[]) => having({ affinity: { podAffinity: required(terms) } });
const apart = (...terms: PodAffinityTerm[]) => having({ affinity: { podAntiAffinity: required(terms) } });
const matching = (nodeSelectorTerms: object[]) =>
  having({ affinity: { nodeAffinity: required({ nodeSelectorTerms }) } });
const port = (more: object) =>
  having({ containers: [{ name: "c", ports: [{ containerPort: 80, hostPort: 80, ...more }] }] });
const spread = (more: Partial<TopologySpreadConstraint> = {}) =>
  having({
    topologySpreadConstraints: [
      {
        topologyKey: ZONE,
        maxSkew: 1,
        whenUnsatisfiable: "DoNotSchedule",
        labelSelector: { matchLabels: { app: "web" } },
        ...more,
      },
    ],
  });
const asks = (cpu: string) => lost.requesting({ cpu });
const cordonToleration = { key: "node.kubernetes.io/unschedulable", operator: "Exists" };

/** The pod, a cluster where n1 takes it, one where no node does, and why n1 does not. */
const rows: readonly (readonly [string, PodBuilder, Things, Things, string])[] = [
  [
    "node selector",
    lost.selecting({ gpu: "yes" }),
    [n1.labelled({ gpu: "yes" })],
    [n1.labelled({ gpu: "no" })],
    "lacks label gpu=yes",
  ],
  [
    "required node affinity",
    matching([{ matchExpressions: [{ key: "rank", operator: "Gt", values: ["3"] }] }])(lost),
    [n1.labelled({ rank: "4" })],
    [n1.labelled({ rank: "3" })],
    "does not match required node affinity",
  ],
  [
    "name of the node",
    matching([{ matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n2"] }] }])(lost),
    [n1],
    [node("n2")],
    "does not match required node affinity",
  ],
  [
    "a node that is being deleted",
    lost,
    [n1],
    [n1.stored({ deletionTimestamp: "2026-01-01T00:00:00Z" })],
    "is being deleted",
  ],
  ["a cordon", lost, [n1], [n1.unschedulable()], "is cordoned"],
  [
    "D-A95 a node that Karpenter removes",
    lost.tolerating({ operator: "Exists" }),
    [n1],
    [n1.tainted("karpenter.sh/disrupted:NoSchedule")],
    "is being removed by an autoscaler (taint karpenter.sh/disrupted)",
  ],
  [
    "D-A96 a node that cluster-autoscaler may remove",
    lost,
    [n1],
    [n1.tainted("DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule")],
    "may be removed by an autoscaler (taint DeletionCandidateOfClusterAutoscaler)",
  ],
  [
    "a cordon that is tolerated",
    lost.tolerating(cordonToleration),
    [n1.unschedulable()],
    [full("n1").unschedulable()],
    "has taint full:NoSchedule",
  ],
  ["NoSchedule", lost, [n1.tainted("a:PreferNoSchedule")], [full("n1")], "has taint full:NoSchedule"],
  [
    "NoExecute",
    lost.tolerating({ key: "a", operator: "Equal", value: "x" }),
    [n1.tainted("a=x:NoExecute")],
    [n1.tainted("a=y:NoExecute")],
    "has taint a=y:NoExecute",
  ],
  [
    "cpu",
    asks("1"),
    [n1, other("n1").requesting({ cpu: "1" })],
    [n1, other("n1").requesting({ cpu: "1001m" })],
    "has too little free cpu",
  ],
  [
    "memory",
    lost.requesting({ memory: "2Gi" }),
    [n1, other("n1").requesting({ memory: "2048Mi" })],
    [n1, other("n1").requesting({ memory: "2G" }), other("n1").requesting({ memory: "200M" })],
    "has too little free memory",
  ],
  [
    "an extended resource",
    lost.requesting({ [GPU]: "1" }),
    [n1.capacity({ [GPU]: "2" }), other("n1").requesting({ [GPU]: "1" })],
    [n1, other("n1")],
    `has too little free ${GPU}`,
  ],
  [
    "the number of pods",
    lost,
    [n1.capacity({ pods: "1" })],
    [n1.capacity({ pods: "1" }), other("n1")],
    "has no place for one more pod",
  ],
  [
    "pods that are being deleted still use resources",
    asks("2"),
    [n1],
    [n1, other("n1").requesting({ cpu: "1" }).stored({ deletionTimestamp: "2026-01-01T00:00:00Z" })],
    "has too little free cpu",
  ],
  [
    "init containers count by the largest",
    having({ initContainers: [container("1"), container("1500m")] })(asks("1")),
    [n1, other("n1").requesting({ cpu: "500m" })],
    [n1, other("n1").requesting({ cpu: "501m" })],
    "has too little free cpu",
  ],
  [
    "sidecars count beside all later containers",
    having({ initContainers: [container("500m", { restartPolicy: "Always" }), container("1")] })(asks("1")),
    [n1, other("n1").requesting({ cpu: "500m" })],
    [n1, other("n1").requesting({ cpu: "501m" })],
    "has too little free cpu",
  ],
  [
    "a pod's own requests count instead of its containers'",
    asks("1500m"),
    [n1, having({ resources: { requests: { cpu: "500m" } } })(other("n1").requesting({ cpu: "100m" }))],
    [n1, having({ resources: { requests: { cpu: "501m" } } })(other("n1").requesting({ cpu: "100m" }))],
    "has too little free cpu",
  ],
  [
    "overhead",
    having({ overhead: { cpu: "500m" } })(asks("1")),
    [n1, other("n1").requesting({ cpu: "500m" })],
    [n1, having({ overhead: { cpu: "1m" } })(other("n1").requesting({ cpu: "500m" }))],
    "has too little free cpu",
  ],
  [
    "host ports",
    port({})(lost),
    [n1, port({ protocol: "UDP" })(other("n1"))],
    [n1, port({ hostIP: "10.0.0.1" })(other("n1"))],
    "has host port 80 in use",
  ],
  [
    "host ports of an address",
    port({ hostIP: "10.0.0.2" })(lost),
    [n1, port({ hostIP: "10.0.0.1" })(other("n1"))],
    [n1, port({ hostIP: "10.0.0.2" })(other("n1"))],
    "has host port 80 in use",
  ],
  [
    "pod affinity",
    near(term())(lost),
    [n1, full("n2"), other("n2")],
    [n1, full("n2").zone("b"), other("n2")],
    "does not match pod affinity",
  ],
  [
    "pod affinity: the first of its kind needs no other",
    near(term())(lost),
    [n1],
    [n1.with((it) => ({ ...it, metadata: { name: "n1" } }))],
    `lacks label ${ZONE}`,
  ],
  [
    "pod affinity: one pod matches all terms",
    near(term(), term({ labelSelector: { matchLabels: { rev: "2" } } }))(lost),
    [n1, other("n1").labelled({ rev: "2" })],
    [n1, other("n1")],
    "does not match pod affinity",
  ],
  [
    "pod anti-affinity",
    apart(term())(lost),
    [n1, full("n2").zone("b"), other("n2")],
    [n1, full("n2"), other("n2")],
    "breaks pod anti-affinity",
  ],
  [
    "pod anti-affinity of other pods",
    lost,
    [n1, full("n2"), apart(term({ labelSelector: { matchLabels: { app: "db" } } }))(other("n2"))],
    [n1, full("n2"), apart(term())(other("n2"))],
    "breaks pod anti-affinity",
  ],
  [
    "namespaces of a term",
    apart(term({ namespaces: ["shop"] }))(lost),
    [n1, other("n1")],
    [n1, other("n1").in("shop")],
    "breaks pod anti-affinity",
  ],
  [
    "the namespace selector of a term",
    lost,
    [n1, apart(term({ namespaceSelector: { matchLabels: { team: "x" } } }))(other("n1").in("shop"))],
    [n1, apart(term({ namespaceSelector: {} }))(other("n1").in("shop"))],
    "breaks pod anti-affinity",
  ],
  [
    "topology spread",
    spread()(lost),
    [n1, full("n2").zone("b"), other("n1"), other("n2")],
    [n1, full("n2").zone("b"), other("n1")],
    `breaks the spread over ${ZONE}`,
  ],
  [
    "topology spread: the least number of domains",
    spread({ minDomains: 2 })(lost),
    [n1],
    [n1, other("n1")],
    `breaks the spread over ${ZONE}`,
  ],
  [
    "topology spread: tainted nodes",
    spread({ nodeTaintsPolicy: "Honor" })(lost),
    [n1, full("n2").zone("b"), other("n1")],
    [n1, node("n2").zone("b").unschedulable(), other("n1")],
    `breaks the spread over ${ZONE}`,
  ],
  [
    "topology spread: keys of labels",
    spread({ matchLabelKeys: ["rev"] })(lost),
    [n1, full("n2").zone("b"), other("n1").labelled({ rev: "2" })],
    [n1, full("n2").zone("b"), other("n1")],
    `breaks the spread over ${ZONE}`,
  ],
  [
    "topology spread: pods that are being deleted do not count",
    spread()(lost),
    [n1, full("n2").zone("b"), other("n1").stored({ deletionTimestamp: "2026-01-01T00:00:00Z" })],
    [n1, full("n2").zone("b"), other("n1")],
    `breaks the spread over ${ZONE}`,
  ],
];

const built = (pod: PodBuilder): Pod => pod.stored({ uid: "lost" }).build();
const message = (answer: FitResult): string => ("message" in answer ? answer.message : `fits ${answer.node}`);

describe("a node takes a pod, or does not, by each criterion", () => {
  it.each(rows)("%s", (_, pod, takes, refuses, why) => {
    for (const slim of [(it: Pod) => it, slimPod]) {
      // Its own node is empty and takes everything, but does not count.
      const on = (things: Things): FitResult =>
        findFit(slim(built(pod)), "True", builtGround([...things, aNode("home")], slim));
      expect(on(takes)).toEqual({ node: "n1" });
      expect(on(refuses)).toMatchObject({ reason: "NoOtherNode", message: expect.stringContaining(why) });
    }
  });
});

it.each([
  [having({ schedulerName: "mine" }), "its scheduler is mine, whose criteria Berth does not know"],
  [
    having({ resourceClaims: [{ name: "gpu" }] }),
    "it has resource claims, and devices can bind a pod to nodes",
  ],
  [
    having({ volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] }),
    "it has a persistent volume, and volumes can bind a pod to nodes",
  ],
  [
    having({ volumes: [{ name: "data", ephemeral: {} }] }),
    "it has a persistent volume, and volumes can bind a pod to nodes",
  ],
  [(it: PodBuilder) => it.in("new"), "Berth does not know the labels of its namespace new"],
])("cannot tell whether another node takes a pod when %j", (change, why) => {
  const pod = built(change(lost));
  for (const it of [pod, slimPod(pod)]) {
    expect(findFit(it, "True", builtGround([n1]))).toEqual({ reason: "FitUnknown", message: why });
    expect(findFit(it, "PendingOk", builtGround([n1]))).toEqual({ node: "n1" });
  }
});

describe("PendingOk", () => {
  it("takes a node that is right and full", () => {
    const ground = builtGround([n1.capacity({ pods: "0" })]);
    expect(findFit(built(apart(term())(asks("9"))), "PendingOk", ground)).toEqual({ node: "n1" });
  });

  it("takes no node that is wrong", () => {
    const ground = builtGround([n1.unschedulable(), full("n2"), node("n3")]);
    expect(message(findFit(built(lost.selecting({ gpu: "yes" })), "PendingOk", ground))).toBe(
      "none of 3 other nodes takes it: 3 lack label gpu=yes",
    );
  });
});

describe("pods that Berth assumes elsewhere", () => {
  const pod = built(asks("2"));
  const ground = builtGround([n1, node("n2"), other("n2").requesting({ cpu: "1" }), node("home")]);
  const [moved] = ground.podsOn("n2");

  it("use the resources of their new node", () => {
    expect(findFit(pod, "True", ground)).toEqual({ node: "n1" });
    const placed = [{ pod: built(asks("1").on("n3")), node: "n1" }];
    expect(message(findFit(pod, "True", ground, placed))).toBe(
      "none of 2 other nodes takes it: 2 have too little free cpu",
    );
  });

  it("no longer use those of their old node, even when the pod is being deleted", () => {
    const deleted = { ...moved, metadata: { ...moved?.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    expect(findFit(pod, "True", ground, [{ pod: deleted, node: "n1" }])).toEqual({ node: "n2" });
  });

  it("count for the spread of pods", () => {
    const zones = builtGround([n1, node("n2").zone("b"), node("home").zone("c").unschedulable()]);
    const deleted = built(lost.stored({ deletionTimestamp: "2026-01-01T00:00:00Z" }));
    const placed = [{ pod: deleted, node: "n1" }];
    const next = { ...built(spread()(lost)), metadata: { ...built(lost).metadata, uid: "next" } };
    expect(findFit(next, "True", zones, placed)).toEqual({ node: "n2" });
  });
});

describe("the spread of pods", () => {
  const gpu = (name: string) => node(name).labelled({ gpu: "yes" });
  const zone = (name: string, of: string) => node(name).zone(of);
  const web = other("n1");
  const selecting = lost.selecting({ gpu: "yes" });
  const fits = { node: "n1" };
  it.each<[string, PodBuilder, Things, FitResult | { readonly reason: string }]>([
    [
      "leaves out nodes that the pod does not ask for",
      spread()(selecting),
      [gpu("n1"), web, zone("n2", "b")],
      fits,
    ],
    [
      "counts them where the constraint ignores the affinity",
      spread({ nodeAffinityPolicy: "Ignore" })(selecting),
      [gpu("n1"), web, zone("n2", "b")],
      { reason: "NoOtherNode" },
    ],
    ["counts nodes with taints", spread()(lost), [n1, web, full("n2").zone("b")], { reason: "NoOtherNode" }],
    [
      "leaves them out where the constraint honors taints",
      spread({ nodeTaintsPolicy: "Honor" })(lost),
      [n1, web, full("n2").zone("b")],
      fits,
    ],
    [
      "counts no pod of another namespace, and none that is being deleted",
      spread()(lost),
      [
        n1,
        web.in("shop"),
        other("n1").stored({ deletionTimestamp: "2026-01-01T00:00:00Z" }),
        full("n2").zone("b"),
      ],
      fits,
    ],
    [
      "counts no pod without a selector",
      spread({ labelSelector: {} })(lost),
      [n1, web, full("n2").zone("b")],
      fits,
    ],
    [
      "does not bind where it is only wished",
      spread({ whenUnsatisfiable: "ScheduleAnyway" })(lost),
      [n1, web, full("n2").zone("b")],
      fits,
    ],
  ])("%s", (_, pod, things, expected) => {
    expect(findFit(built(pod), "True", builtGround(things))).toMatchObject(expected);
  });
});

describe("two terms of affinity", () => {
  const db = { matchLabels: { app: "db" } };
  const both = near(
    term(),
    term({ topologyKey: "rack", labelSelector: { matchLabels: { rev: "1" } } }),
  )(lost.labelled({ app: "api", rev: "0" }));
  it.each<[string, PodBuilder, Things, FitResult | { readonly reason: string }]>([
    ["need one pod for both", both, [n1.labelled({ rack: "r" }), other("n1")], { node: "n1" }],
    [
      "are not met in another rack",
      both,
      [n1.labelled({ rack: "r" }), node("n2").labelled({ rack: "s" }), other("n2")],
      { node: "n2" },
    ],
    [
      "are not met by a pod that only one is about",
      near(term(), term({ labelSelector: db }))(lost),
      [n1, other("n1")],
      { reason: "NoOtherNode" },
    ],
  ])("%s", (_, pod, things, expected) =>
    expect(findFit(built(pod), "True", builtGround(things))).toMatchObject(expected),
  );
});

describe("the message", () => {
  const say = (...things: Things): string => message(findFit(built(asks("1")), "True", builtGround(things)));

  it("counts nodes by reason, most first", () => {
    expect(say(n1.unschedulable(), n1.capacity({ cpu: "0" }), n1.capacity({ cpu: "0" }))).toBe(
      "none of 3 other nodes takes it: 2 have too little free cpu, 1 is cordoned",
    );
  });

  it("is short", () => {
    const tainted = [1, 2, 3, 4, 5, 6].map((i) => n1.tainted(`t${i}:NoSchedule`));
    expect(say(...tainted)).toMatch(/: 1 has taint t1:NoSchedule, .*, 2 for other reasons$/);
  });

  it("names one node, and none", () => {
    expect(say(n1.unschedulable())).toBe("the only other node does not take it: 1 is cordoned");
    expect(say(node("home"))).toBe("there is no other node");
  });
});

it("reads the pods only of nodes that are right", () => {
  const ground = builtGround([full("n1"), n1.unschedulable(), n1.labelled({ gpu: "yes" })]);
  const read: string[] = [];
  const podsOn = (name: string) => {
    read.push(name);
    return [];
  };
  const pod = built(asks("9").selecting({ gpu: "yes" }));
  expect(findFit(pod, "True", { ...ground, podsOn })).toMatchObject({ reason: "NoOtherNode" });
  expect(read).toEqual(["n1"]);
});

describe("S-16 a pod that says more than Berth reads", () => {
  const many = (count: number, more: Partial<PodAffinityTerm> = {}): readonly PodAffinityTerm[] =>
    Array.from({ length: count }, (_, at) =>
      term({ labelSelector: { matchLabels: { app: `${at}` } }, ...more }),
    );
  const ground = builtGround([n1, node("n2").zone("b"), aPod("web").on("n2").labelled({ app: "web" })]);

  it.each<[string, PodBuilder, string]>([
    ["in its namespace", apart(...many(1_000))(other("n1")), "n2"],
    [
      "in its namespace, and elsewhere the lost pod has a node",
      apart(...many(1_000))(other("n1").in("shop")),
      "n1",
    ],
    [
      "anywhere, for one term that names a namespace",
      apart(...many(1_000), term({ namespaces: ["x"] }))(other("n1").in("shop")),
      "n2",
    ],
    [
      "anywhere, for one term that selects namespaces",
      apart(...many(1_000), term({ namespaceSelector: {} }))(other("n1").in("shop")),
      "n2",
    ],
  ])("by its anti-affinity keeps all pods out of its domains %s", (_, builder, free) => {
    const around = builtGround([n1, node("n2").zone("b"), builder], slimPod);
    expect(findFit(built(lost), "True", around)).toEqual({ node: free });
  });

  it("and a lookup that has taken 20 million comparisons has no answer", () => {
    const values = Array.from({ length: 980 }, (_, at) => `${at}`);
    const pod = built(
      apart(term({ labelSelector: { matchExpressions: [{ key: "none", operator: "In", values }] } }))(lost),
    );
    const crowd = { ...ground, podsOn: () => Array.from({ length: 12_000 }, () => ({})) };
    const huge = aNode("n1").capacity({ pods: "99999", cpu: "1", memory: "1" }).build();
    expect(findFit(pod, "True", { ...crowd, nodes: [huge, huge] })).toEqual({
      reason: "FitUnknown",
      message: "affinity of it or of other pods takes more than 20000000 comparisons",
    });
    expect(findFit(pod, "True", { ...crowd, nodes: [huge] })).toEqual({ node: "n1" });
  });
});
