/** What one tenant writes costs the others a bounded number of reads. */
import type { Container, Node, Pod, PodSpec } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { fitSteps, type Ground } from "./fit.ts";
import { PASS_COMPARISONS } from "./fit-lookups.ts";
import { asksForAny, judge } from "./judge.ts";
import { type DescheduleViews, descheduleReads } from "./reads.ts";
import { aPolicy, GPU, gpuPod, observations } from "./testing/lost.ts";

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const node = aNode("n1").tainted("a:NoSchedule").build();
const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));
const where = (key: string, values: readonly string[]) => ({
  matchExpressions: [{ key, operator: "In", values: [...values] }],
});
const nodeAffinity = (terms: number, values = 1): Partial<PodSpec> => ({
  affinity: {
    nodeAffinity: {
      [REQUIRED]: { nodeSelectorTerms: many(terms, (at) => where(`k${at}`, many(values, String))) },
    },
  },
});
const term = (at: number) => ({ topologyKey: `t${at}`, labelSelector: where("app", [`${at}`]) });
const container = (at: number): Container => ({
  name: `c${at}`,
  resources: { requests: { cpu: "1m", [`example.com/r${at % 3}`]: "1" } },
  ports: [{ containerPort: 80, hostPort: at + 1 }],
});

/** On the wire, and with all of its spec that another one has not replaced. */
function saying(spec: Partial<PodSpec>): Pod {
  const pod = gpuPod("a").build();
  return { ...pod, spec: { containers: [], ...pod.spec, ...spec } };
}

/** The pod as the process keeps it. */
function kept(pod: Pod): Pod {
  const [scope] = descheduleReads.pods.wanted({ policies: [policy], faults: [] }, {} as DescheduleViews);
  return scope?.project(pod) ?? {};
}

/** The object, which counts how often its parts are read. */
function counted<T extends object>(object: T): { readonly it: T; reads: number } {
  const count = { it: object, reads: 0 };
  const wrap = <U extends object>(of: U): U =>
    new Proxy(of, {
      get(target, key, receiver) {
        count.reads += 1;
        const value: unknown = Reflect.get(target, key, receiver);
        return typeof value === "object" && value !== null ? wrap(value) : value;
      },
      ownKeys(target) {
        const keys = Reflect.ownKeys(target);
        count.reads += keys.length;
        return keys;
      },
    });
  count.it = wrap(object);
  return count;
}

const policy = aPolicy({ keys: ["*"], everything: true, taints: ["*"] });
const stays = { state: "stays", reason: "FitUnknown" };

describe("S-16 a pod that says more than 1,000 entries", () => {
  it.each<[string, Partial<PodSpec>]>([
    ["terms", nodeAffinity(1_000)],
    ["values", nodeAffinity(1, 1_000)],
    ["a node selector", { nodeSelector: Object.fromEntries(many(1_000, (at) => [`k${at}`, ""])) }],
    ["tolerations", { tolerations: many(600, (at) => ({ key: `${at}` })) }],
    ["affinity", { affinity: { podAffinity: { [REQUIRED]: many(1_000, term) } } }],
    ["anti-affinity", { affinity: { podAntiAffinity: { [REQUIRED]: many(1_000, term) } } }],
    [
      "spread constraints",
      {
        topologySpreadConstraints: many(300, (at) => ({
          maxSkew: 1,
          topologyKey: `${at}`,
          whenUnsatisfiable: "DoNotSchedule" as const,
        })),
      },
    ],
    ["ports of the node", { containers: many(500, container) }],
  ])("in %s stays, and is read a few times only", (_, spec) => {
    const { it: pod, ...count } = counted(kept(saying(spec)));
    expect(judge(pod, node, policy, observations)).toMatchObject(stays);
    expect(asksForAny(pod, new Set([GPU]))).toBe(false);
    expect(count.reads).toBeLessThan(100);
  });

  it("is none of a policy that selects other pods", () => {
    const other = aPolicy({ podSelector: { matchLabels: { app: "x" } } });
    expect(judge(kept(saying(nodeAffinity(1_000))), node, other, observations)).toEqual({
      state: "outside",
    });
  });

  it("is judged with a few less, in a bounded number of reads", () => {
    const count = counted(kept(saying(nodeAffinity(130))));
    expect(judge(count.it, node, policy, observations)).toMatchObject({ state: "lost" });
    expect(count.reads).toBeGreaterThan(130);
    expect(count.reads).toBeLessThan(PASS_COMPARISONS / 2);
  });
});

// Counters of mutants make it slower than its time.
describe.skipIf(process.env["BERTH_MUTATES"])("S-16 a lookup among 20 pods of 1,000 containers each", () => {
  const running: Node = aNode("n2")
    .labelled({ [GPU]: "true" })
    .capacity({ cpu: "999", pods: "999" })
    .build();
  const others = many(20, () => kept(saying({ containers: many(1_000, container) })));
  const longest = (pod: Pod, pods: readonly Pod[]): { readonly reads: number; readonly steps: number } => {
    const around = counted([...pods]);
    const ground: Ground = { nodes: [running], podsOn: () => around.it, namespaceLabels: () => ({}) };
    const lookup = fitSteps(pod, "True", ground, []);
    let [reads, steps] = [0, 0];
    for (let isDone = false; !isDone; steps += 1) {
      const before = around.reads;
      isDone = lookup.next().done === true;
      reads = Math.max(reads, around.reads - before);
    }
    return { reads, steps };
  };

  it("reads a bounded part of them in one step", () => {
    const ports = many(100, (at) => ({ containerPort: 1, hostPort: 5_000 + at }));
    const asking = kept(saying({ containers: [{ name: "a", ports }] }));
    const { reads, steps } = longest(asking, others);
    expect(reads).toBeLessThan(PASS_COMPARISONS / 2);
    expect(steps).toBeGreaterThan(20);
  });
});
