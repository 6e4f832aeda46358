import type { DaemonSet, Node } from "@berth/kube";
import { aNode, BUILT_AT } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { originalGate, type PodSignal, startupGateSpec } from "./document.ts";
import type { PodQuery, SignalReading } from "./gate.ts";
import { podQueries } from "./pod-signal.ts";
import { readSignals } from "./signals.ts";
import { replaced, whole } from "./testing/junk.ts";
import { gateWith, type SignalsInput, sightOf, type World } from "./testing/observations.ts";

function read(signals: SignalsInput, node: Node, world: World = {}): readonly SignalReading[] {
  const context = { observations: sightOf(world), boot: { id: "" }, gateTaints: [] };
  return readSignals(gateWith(signals), node, context);
}

describe("conditions of the node", () => {
  const node = aNode("n1")
    .condition("NetworkReady", "True", "Up")
    .condition("DiskBad", "False", "Fine")
    .with((it) => ({
      ...it,
      status: {
        ...it.status,
        conditions: [...(it.status?.conditions ?? []), { type: "Bare", status: "True" }],
      },
    }))
    .build();
  it.each([
    ["NetworkReady", "True", "condition NetworkReady", "holds", "NetworkReady is True (Up)"],
    ["NetworkReady", "False", "condition NetworkReady=False", "missing", "NetworkReady is True (Up)"],
    ["DiskBad", "False", "condition DiskBad=False", "holds", "DiskBad is False (Fine)"],
    ["DiskBad", "True", "condition DiskBad", "missing", "DiskBad is False (Fine)"],
    ["None", "Unknown", "condition None=Unknown", "missing", "the node has no condition None"],
    ["Bare", "True", "condition Bare", "holds", "Bare is True"],
  ] as const)("%s %s: %s %s", (type, status, signal, state, message) => {
    const reason = state === "holds" ? "SignalHolds" : "ConditionMissing";
    expect(read({ conditions: [{ type, status }] }, node)).toMatchObject([
      { signal, state, reason, message },
    ]);
  });

  it("hold since their last transition, and another one is other evidence", () => {
    const [reading] = read({ conditions: [{ type: "NetworkReady" }] }, node);
    expect(reading).toMatchObject({ since: Date.parse(BUILT_AT), evidence: `True@${BUILT_AT}` });
    const [bare] = read({ conditions: [{ type: "Bare" }] }, node);
    expect(bare?.since).toBeUndefined();
  });
});

describe("I-14 a condition that the node does not have", () => {
  const node = aNode("n1").build();
  it.each([
    ["False", undefined, "missing", "the node has no condition Bad"],
    ["False", "False", "holds", "the node has no condition Bad, which counts as False"],
    ["False", "Unknown", "missing", "the node has no condition Bad, which counts as Unknown"],
    ["Unknown", "Unknown", "holds", "the node has no condition Bad, which counts as Unknown"],
  ] as const)("%s is wanted, and absent is %s: %s", (status, defaultStatus, state, message) => {
    const condition = { type: "Bad", status, defaultStatus };
    const context = { observations: sightOf({}), boot: { id: "" }, gateTaints: [] };
    const gate = gateWith({ conditions: [condition] }, { mode: "Continuous" });
    expect(readSignals(gate, node, context)).toMatchObject([{ state, message }]);
  });
});

describe("I-14 alternatives", () => {
  const group = (...keys: readonly string[]) => ({
    annotations: keys.map((key) => ({ key, value: "true" })),
  });
  const anyOf = [group("a", "b"), group("c")];
  const name = "any of (annotation a and annotation b) or (annotation c)";
  const annotated = (...keys: readonly string[]) =>
    aNode("n1")
      .annotated(Object.fromEntries(keys.map((key) => [key, "true"])))
      .build();
  it.each([
    [["a"], "missing", "NoAlternative"],
    [["a", "b"], "holds", "SignalHolds"],
    [["c"], "holds", "SignalHolds"],
    [["a", "c"], "holds", "SignalHolds"],
    [[], "missing", "NoAlternative"],
  ] as const)("%j: %s", (keys, state, reason) => {
    expect(read({ anyOf }, annotated(...keys))).toMatchObject([{ signal: name, state, reason }]);
  });

  it("are told with what each of them lacks first", () => {
    const [reading] = read({ anyOf }, annotated("a"));
    const absent = 'the node has no such annotation; "true" is wanted';
    expect(reading?.message).toBe(`annotation b: ${absent}; nor annotation c: ${absent}`);
  });

  it("have to hold beside the other signals", () => {
    const readings = read({ anyOf, annotations: [{ key: "own" }] }, annotated("c"));
    expect(readings.map(({ signal, state }) => [signal, state])).toEqual([
      ["annotation own", "missing"],
      [name, "holds"],
    ]);
  });

  it("go by the one that has held for longest, and say when none can be read", () => {
    const at = (type: string, lastTransitionTime: string) => ({ type, status: "True", lastTransitionTime });
    const conditions = [at("Late", "2026-01-02T00:00:00Z"), at("Early", "2026-01-01T00:00:00Z")];
    const node = aNode("n1")
      .with((it) => ({ ...it, status: { ...it.status, conditions } }))
      .build();
    const wanted = (type: string) => ({ conditions: [{ type, status: "True" as const }] });
    const [reading] = read({ anyOf: [wanted("Late"), wanted("Early")] }, node);
    expect(reading).toMatchObject({
      since: Date.parse("2026-01-01T00:00:00Z"),
      evidence: expect.stringContaining("Early"),
    });
    const unread = read({ anyOf: [wanted("None"), { labelsSettled: true }] }, node, {
      labelsSettled: undefined,
    });
    expect(unread).toMatchObject([{ state: "unknown", reason: "SignalUnknown" }]);
  });

  it.each([
    ["an empty group", { anyOf: [{}] }, {}],
    [
      "an absent condition that makes a group hold",
      { anyOf: [{ conditions: [{ type: "A", defaultStatus: "True" }] }] },
      { mode: "Continuous" },
    ],
    [
      "an absent condition that lets a new node go",
      { conditions: [{ type: "A", defaultStatus: "True" }] },
      {},
    ],
  ])("refuse %s", (_, signals, spec) => {
    expect(startupGateSpec.safeParse({ signals, ...spec }).success).toBe(false);
  });

  it("have their pods and DaemonSets watched", () => {
    const gate = gateWith({
      anyOf: [{ pods: [] }, {}].map(() => ({ daemonSets: [{ namespace: "a", name: "b" }] })),
    });
    const labels = { app: "b" };
    const daemonSet = {
      metadata: { namespace: "a", name: "b" },
      spec: { selector: { matchLabels: labels }, template: {} },
    };
    expect(podQueries(gate, { daemonSet: () => daemonSet as DaemonSet })).toEqual([
      { namespace: "a", labelSelector: "app=b" },
    ]);
  });
});

describe("annotations of the node", () => {
  const node = aNode("n1")
    .annotated({ "example.com/up": "true", long: "x".repeat(1000) })
    .build();
  it.each([
    ["example.com/up", "true", "holds", 'example.com/up is "true"'],
    ["example.com/up", "yes", "missing", 'it is "true"; "yes" is wanted'],
    ["example.com/down", "true", "missing", 'the node has no such annotation; "true" is wanted'],
    ["constructor", "true", "missing", 'the node has no such annotation; "true" is wanted'],
    ["long", "true", "missing", `it is "${"x".repeat(64)}…"; "true" is wanted`],
  ])("%s=%s: %s", (key, value, state, message) => {
    const reason = state === "holds" ? "SignalHolds" : "AnnotationMissing";
    const signal = `annotation ${key}`;
    expect(read({ annotations: [{ key, value }] }, node)).toMatchObject([{ signal, state, reason, message }]);
  });
});

describe("resources of the node", () => {
  it.each([
    ["8", "holds"],
    ["1", "holds"],
    ["500m", "holds"],
    ["16Gi", "holds"],
    ["0", "missing"],
    ["0Gi", "missing"],
    ["-1", "missing"],
    ["many", "missing"],
    ["", "missing"],
  ])("%s is there: %s", (quantity, state) => {
    const node = aNode("n1").capacity({ "nvidia.com/gpu": quantity }).build();
    const reason = state === "holds" ? "SignalHolds" : "ResourceMissing";
    expect(read({ resources: ["nvidia.com/gpu"] }, node)).toMatchObject([
      { signal: "resource nvidia.com/gpu", state, reason },
    ]);
  });

  it("are missing while the device plugin has not told of them", () => {
    expect(read({ resources: ["nvidia.com/gpu"] }, aNode("n1").build())).toMatchObject([
      { state: "missing", message: "the node does not offer nvidia.com/gpu" },
    ]);
  });

  it("are those that pods can have, and not those that the machine has", () => {
    const node = aNode("n1").with((it) => ({
      ...it,
      status: { ...it.status, capacity: { gpu: "8" }, allocatable: { gpu: "0" } },
    }));
    expect(read({ resources: ["gpu"] }, node.build())[0]?.state).toBe("missing");
  });
});

describe("derived labels", () => {
  it.each([
    [true, "holds", "SignalHolds"],
    [false, "missing", "LabelsUnsettled"],
    [undefined, "unknown", "SignalUnknown"],
  ])("settled %s: %s", (labelsSettled, state, reason) => {
    const readings = read({ labelsSettled: true }, aNode("n1").build(), { labelsSettled });
    expect(readings).toMatchObject([{ signal: "labels settled", state, reason }]);
  });
});

describe("the pods that are watched", () => {
  const init: DaemonSet = {
    metadata: { name: "init", namespace: "kube-system", uid: "ds-1" },
    spec: { selector: { matchLabels: { app: "init" } }, template: {} },
  };
  const observations = sightOf({ daemonSets: [init], selectors: [{ matchLabels: originalGate.podLabels }] });
  const labelSelector = "startup.k8s.io/component=init";
  it.each<[string, Partial<PodSignal>[], readonly PodQuery[]]>([
    [
      "one query for each namespace",
      [{ namespaces: ["a", "b"] }],
      [
        { namespace: "a", labelSelector },
        { namespace: "b", labelSelector },
      ],
    ],
    ["one for all", [{ namespaces: ["a", "*"] }], [{ labelSelector }]],
    [
      "each once",
      [{ namespaces: ["a"] }, { namespaces: ["a"], need: "Any" }],
      [{ namespace: "a", labelSelector }],
    ],
  ])("are %s", (_, pods, queries) => {
    expect(podQueries(gateWith({ pods }), observations)).toEqual(queries);
  });

  it("are those of named DaemonSets by their own selector, once it is known", () => {
    const gate = gateWith({
      daemonSets: [
        { namespace: "kube-system", name: "init" },
        { namespace: "kube-system", name: "gone" },
      ],
    });
    expect(podQueries(gate, observations)).toEqual([{ namespace: "kube-system", labelSelector: "app=init" }]);
    expect(podQueries(gate, sightOf({ daemonSetsRead: false }))).toEqual([]);
  });

  it("are queries that a selector text of any gate is asked by", () => {
    fc.assert(
      fc.property(fc.subarray(["a", "b", "kube-system", "*"], { minLength: 1 }), (namespaces) => {
        const asked: unknown[] = [];
        const gate = gateWith({ pods: [{ namespaces }] });
        const watching = { ...observations, pods: (query: unknown) => void asked.push(query) };
        readSignals(gate, aNode("n1").build(), { observations: watching, boot: { id: "" }, gateTaints: [] });
        expect(asked).toEqual(podQueries(gate, observations));
      }),
    );
  });
});

const everything: SignalsInput = {
  pods: [{}],
  daemonSets: [{ namespace: "kube-system", name: "cni" }],
  conditions: [{ type: "Ready" }],
  annotations: [{ key: "a" }],
  resources: ["gpu"],
  labelsSettled: true,
};
const names = [
  "pods kube-system startup.k8s.io/component=init",
  "daemonset kube-system/cni",
  "condition Ready",
  "annotation a",
  "resource gpu",
  "labels settled",
];

describe("all signals of a gate", () => {
  it("are read in the order of the schema", () => {
    expect(
      read(everything, aNode("n1").build(), { selectors: [{ matchLabels: originalGate.podLabels }] }).map(
        ({ signal }) => signal,
      ),
    ).toEqual(names);
  });

  it("are told of objects of whatever shape", () => {
    const step = fc.nat({ max: 20 });
    const cases = fc.record({
      part: fc.constantFrom("node", "pod", "daemonSet"),
      path: fc.array(step, { minLength: 1, maxLength: 10 }),
      junk: fc.oneof(fc.jsonValue(), fc.constantFrom(null, "__proto__", [null], {}, 0)),
    });
    fc.assert(
      fc.property(cases, ({ part, path, junk }) => {
        const broken = { ...whole, [part]: replaced(whole[part as "pod"], path, junk) };
        const observations = {
          pods: () => [broken.pod],
          daemonSet: () => broken.daemonSet,
          labelsSettled: () => true,
        };
        const gate = gateWith(everything);
        const context = { observations, boot: { id: "b", since: 0 }, gateTaints: [] };
        expect(readSignals(gate, broken.node, context).map(({ signal }) => signal)).toEqual(names);
      }),
      { numRuns: 2000 },
    );
  });

  it("that cannot be read are unknown, and the others are read", () => {
    const node = { ...whole.node, status: { ...whole.node.status, conditions: [null] } } as unknown as Node;
    const readings = read({ conditions: [{ type: "Ready" }], resources: ["cpu"] }, node);
    expect(readings).toMatchObject([
      { signal: "condition Ready", state: "unknown", reason: "SignalUnknown", evidence: "" },
      { signal: "resource cpu", state: "holds" },
    ]);
  });
});
