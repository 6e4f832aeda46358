import type { Pod, PodAffinityTerm } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import type { Placed } from "./decide.ts";
import { type FitResult, findFit, type Ground } from "./fit.ts";
import { FitLookups, PASS_COMPARISONS } from "./fit-lookups.ts";
import { GPU, single } from "./testing/lost.ts";

const HOSTNAME = "kubernetes.io/hostname";
const NODES = 50;
const nodes = Array.from({ length: NODES }, (_, at) => {
  const labels = { [HOSTNAME]: `good-${at}`, [GPU]: "true" };
  return aNode(`good-${at}`).labelled(labels).capacity({ cpu: "9", pods: "999" }).build();
});
/** About pods of all namespaces, so the labels of the namespace are read once for each comparison. */
const terms = Array.from(
  { length: 100 },
  (_, at): PodAffinityTerm => ({
    topologyKey: HOSTNAME,
    namespaceSelector: {},
    labelSelector: { matchLabels: { app: `${at}` } },
  }),
);
const others = Array.from({ length: 500 }, (_, at): Pod => {
  const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } };
  return {
    metadata: { name: `o${at}`, namespace: "evil", uid: `o${at}` },
    spec: { containers: [], nodeName: `good-${at % NODES}`, affinity },
  };
});
const byNode = Map.groupBy(others, ({ spec }) => spec?.nodeName ?? "");
const of = (namespace: string, name = namespace): Pod => {
  const pod = single(name);
  return { ...pod, metadata: { ...pod.metadata, namespace } };
};
const good = of("good");

/** 500 pods with a hundred terms each are where the lost pods can go. */
class Crowd {
  /** Comparisons of a term with a pod. */
  read = 0;
  readonly ground: Ground;
  readonly lookups: FitLookups;

  /** @param concerned namespaces whose pods the terms are about; default all. */
  constructor(concerned?: readonly string[]) {
    this.ground = {
      nodes,
      podsOn: (name) => byNode.get(name) ?? [],
      namespaceLabels: () => {
        this.read += 1;
        return {};
      },
      forbidding: (namespace) => ((concerned?.includes(namespace) ?? true) ? others : []),
    };
    this.lookups = new FitLookups(this.ground);
  }

  /** One pass over these pods, in order. @returns where they fit, or why not. */
  pass(
    pods: readonly Pod[],
    { nowMs = 0, placed = [] }: { readonly nowMs?: number; readonly placed?: readonly Placed[] } = {},
  ): readonly (string | undefined)[] {
    this.lookups.begin(nowMs);
    return pods.map((pod) => {
      const found = this.lookups.find(pod, "True", placed);
      return found && ("node" in found ? found.node : found.reason);
    });
  }

  /** How many passes it takes until this one of the pods has an answer. */
  passesFor(pod: Pod, pods: readonly Pod[] = [pod]): number {
    let passes = 1;
    while (this.pass(pods)[pods.indexOf(pod)] === undefined && passes < 100) passes += 1;
    return passes;
  }
}

describe("S-16 a lookup over 500 pods with a hundred terms each", () => {
  it("takes a bounded number of comparisons at a time, and comes to the answer of one that is not interrupted", () => {
    const crowd = new Crowd();
    const reads: number[] = [];
    let answer: string | undefined;
    while (answer === undefined && reads.length < 100) {
      const before = crowd.read;
      [answer] = crowd.pass([good]);
      reads.push(crowd.read - before);
    }
    expect({ node: answer }).toEqual(findFit(good, "True", crowd.ground));
    expect(Math.max(...reads)).toBeLessThanOrEqual(PASS_COMPARISONS);
    expect(reads.length).toBeGreaterThan(4);
    expect(reads.reduce((a, b) => a + b)).toBeGreaterThanOrEqual(500 * 100);
  });

  it("delays a pod of another namespace by one pass, however many pods ask before it, again and again", () => {
    const crowd = new Crowd(["evil", "worse"]);
    const evil = Array.from({ length: 40 }, (_, at) => of("evil", `e${at}`));
    for (let again = 0; again < 5; again += 1)
      expect(crowd.passesFor(good, [...evil, good])).toBeLessThanOrEqual(2);
    const worse = [...evil, of("worse"), good];
    for (let again = 0; again < 5; again += 1) expect(crowd.passesFor(good, worse)).toBeLessThanOrEqual(3);
  });

  it("goes on beside those of other namespaces, and ends", () => {
    const alone = new Crowd().passesFor(good);
    const crowd = new Crowd();
    const pods = [of("evil"), good];
    const answeredIn = new Map<Pod, number>();
    for (let pass = 1; pass < 100 && answeredIn.size < 2; pass += 1)
      for (const [at, answer] of crowd.pass(pods).entries())
        if (answer !== undefined) answeredIn.set(pods[at] as Pod, answeredIn.get(pods[at] as Pod) ?? pass);
    for (const pass of answeredIn.values()) expect([pass > alone, pass <= 3 * alone]).toEqual([true, true]);
    expect(answeredIn.size).toBe(2);
  });

  it("begins anew when another pod has got the place that it finds", () => {
    const placed = [{ pod: single("other"), node: "good-0" }];
    const finish = (crowd: Crowd): number => {
      for (let pass = 0; pass < 100 && crowd.pass([good], { placed })[0] === undefined; pass += 1);
      return crowd.read;
    };
    const once = finish(new Crowd());
    const crowd = new Crowd();
    crowd.pass([good]);
    expect(finish(crowd)).toBe(2 * once);
  });

  it("is forgotten when its pod no longer asks", () => {
    const crowd = new Crowd();
    const passes = new Crowd().passesFor(good);
    for (let pass = 1; pass < passes; pass += 1) expect(crowd.pass([good])).toEqual([undefined]);
    for (const _ of [1, 2]) crowd.pass([]);
    expect(crowd.passesFor(good)).toBe(passes);
  });

  it("ends with FitUnknown after 20 million comparisons", () => {
    const values = Array.from({ length: 900 }, (_, at) => `${at}`);
    const labelSelector = { matchExpressions: [{ key: "none", operator: "In", values }] };
    const required = [{ topologyKey: HOSTNAME, labelSelector }];
    const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } };
    const pod = { ...good, spec: { containers: [], nodeSelector: { [GPU]: "true" }, affinity } };
    const lookups = new FitLookups({
      nodes,
      podsOn: () => Array.from({ length: 600 }, () => ({})),
      namespaceLabels: () => ({}),
    });
    let found: FitResult | undefined;
    for (let pass = 0; pass < 1_100 && found === undefined; pass += 1) {
      lookups.begin(pass);
      found = lookups.find(pod, "True", []);
    }
    expect(found).toMatchObject({ reason: "FitUnknown" });
  });
});

describe("S-16 a pod that no node takes", () => {
  const far = { ...good, spec: { containers: [], nodeSelector: { no: "node" } } };

  it("is not looked at again for 10 s, unless a node changes", () => {
    const crowd = new Crowd();
    let reads = 0;
    const lookups = new FitLookups({
      ...crowd.ground,
      get nodes() {
        reads += 1;
        return nodes;
      },
    });
    const look = (nowMs: number): number => {
      lookups.begin(nowMs);
      expect(lookups.find(far, "True", [])).toMatchObject({ reason: "NoOtherNode" });
      return reads;
    };
    expect([look(0), look(9_999), look(10_000)]).toEqual([1, 1, 2]);
    lookups.nodeChanged();
    expect(look(10_001)).toBe(3);
  });
});
