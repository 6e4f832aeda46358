/** The oracle of the architecture stories finds each thing that it is there for, and nothing in what is right. */
import {
  type DaemonSet,
  daemonSets,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pods,
  type Resource,
  type Toleration,
} from "@berth/kube";
import { architecturePolicies, ORIGINAL_ARCHITECTURE_KEY } from "@berth/placement";
import { type Author, aNode, type HistoryEntry } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import {
  daemonSetObject,
  FOREIGN_GATE,
  podObject,
  policyObject,
  type StoryPod,
  type StoryPolicy,
  specOf,
} from "./architecture-objects.ts";
import { narrowed } from "./architecture-oracle.ts";
import { forbiddenOfArchitectures } from "./architecture-verdict.ts";

const KEY = ORIGINAL_ARCHITECTURE_KEY;
const FACTS = { amd: ["amd64"], arm: ["arm64"], both: ["amd64", "arm64"] };
const taint: StoryPolicy = { mode: "Taint", facts: FACTS };
const affinity: StoryPolicy = { mode: "Affinity", facts: FACTS };
const forAmd: Toleration = { key: KEY, value: "amd64", effect: "NoSchedule" };
const forArm: Toleration = { ...forAmd, value: "arm64" };
const forAll: Toleration = { key: KEY, operator: "Exists", effect: "NoSchedule" };

/** Writes down versions as a telling would. */
class Told {
  readonly entries: HistoryEntry[] = [];
  step = "start";

  policy(content: StoryPolicy): this {
    return this.#note(architecturePolicies, policyObject("policy", specOf(content)), "story");
  }

  policyGoes(): this {
    return this.#note(architecturePolicies, policyObject("policy", {}), "story", "DELETED");
  }

  node(taints: readonly string[], by: Author = "controller", record?: readonly string[]): this {
    return this.#note(nodes, nodeWith(taints, record ?? taints), by);
  }

  pod(content: StoryPod): this {
    return this.#note(pods, podObject("pod", content), "story");
  }

  /** As the controller leaves it. */
  podBecomes(change: (spec: NonNullable<Pod["spec"]>) => object): this {
    const { spec, ...rest } = this.#last(pods) as Pod & { readonly spec: NonNullable<Pod["spec"]> };
    return this.#note(pods, { ...rest, spec: { ...spec, ...change(spec) } } as Pod, "controller");
  }

  daemonSet(tolerations: readonly Toleration[], by: Author = "controller"): this {
    return this.#note(daemonSets, daemonSetObject("set", "both", tolerations), by);
  }

  changes<T extends KubeObject>(resource: Resource<T>, change: (object: T) => T): this {
    return this.#note(resource, change(this.#last(resource) as T), "controller");
  }

  removes(resource: Resource): this {
    return this.#note(resource, this.#last(resource) ?? {}, "controller", "DELETED");
  }

  get problems(): readonly string[] {
    const steps = [...new Set(["start", ...this.entries.map(({ step }) => step)])];
    return forbiddenOfArchitectures(this.entries, { steps, keys: [KEY], sentinelKey: "sentinel" });
  }

  #last(resource: Resource): KubeObject | undefined {
    return this.entries.findLast((entry) => entry.resource === resource)?.object;
  }

  #note(resource: Resource, content: KubeObject, by: Author, gone?: "DELETED"): this {
    const before = this.#last(resource);
    const resourceVersion = String(this.entries.length + 1);
    const object = { ...content, metadata: { ...content.metadata, resourceVersion } };
    const type = gone ?? (before === undefined ? "ADDED" : "MODIFIED");
    const { step } = this;
    this.entries.push({ step, type, resource, name: resource.plural, object, before, by, at: 0 });
    return this;
  }
}

/** @param recorded which of them the node says are Berth's. */
function nodeWith(taints: readonly string[], recorded: readonly string[]): Node {
  const marks = recorded.map((text) => [
    `taint/${text.split("=")[0]}:NoSchedule`,
    { c: "architecture", r: "cluster/policy" },
  ]);
  const record = JSON.stringify({ v: 1, by: "berth", marks: Object.fromEntries(marks) });
  const node = aNode("n1").tainted(...taints);
  return recorded.length === 0 ? node.build() : node.annotated({ "berth.dev/marks": record }).build();
}

const AMD_TAINT = `${KEY}=amd64:NoSchedule`;

/** A cluster with nothing but a node, or a policy before it. */
function told(policy: StoryPolicy = taint): Told {
  return new Told().policy(policy).node([], "story");
}

function bare(): Told {
  return new Told().node([], "story");
}

const appended =
  (...more: readonly Toleration[]) =>
  ({ tolerations = [] }: NonNullable<Pod["spec"]>): object => ({ tolerations: [...tolerations, ...more] });

describe("a taint", () => {
  it("is right once all that waits is covered, or can run nowhere", () => {
    const right = told()
      .pod({ images: ["amd"] })
      .daemonSet([], "story")
      .podBecomes(appended(forAmd))
      .daemonSet([forAmd, forArm])
      .node([AMD_TAINT]);
    expect(right.problems).toEqual([]);
    expect(
      told()
        .pod({ images: ["amd", "arm"] })
        .node([AMD_TAINT]).problems,
    ).toEqual([]);
  });

  it.each<readonly [string, Told]>([
    ["a pod", bare().pod({ images: ["both"], tolerations: [forAmd] })],
    ["a pod whose image nobody knows", bare().pod({ images: ["what"] })],
    ["a DaemonSet", bare().daemonSet([forAmd], "story")],
  ])("is too early while %s is not covered", (_what, before) => {
    expect(before.policy(taint).node([AMD_TAINT]).problems.join()).toMatch(
      /tainted before (Pod|DaemonSet) .* was covered/,
    );
  });

  it("may come whatever waits where another node has it", () => {
    const before = told()
      .node([AMD_TAINT])
      .pod({ images: ["both"] });
    expect(before.node([], "story").node([AMD_TAINT]).problems).toEqual([]);
  });

  it("goes when the policy does, and not before", () => {
    const standing = (): Told => told().node([AMD_TAINT]);
    expect(standing().policyGoes().node([]).problems).toEqual([]);
    expect(standing().node([]).problems.join()).toMatch(/untainted though/);
    expect(standing().policyGoes().node([]).node([AMD_TAINT]).problems.join()).toMatch(/flapped/);
    expect(bare().node([AMD_TAINT]).problems.join()).toMatch(/though no policy does/);
  });

  it("has the node's own value, is recorded, and leaves others alone", () => {
    expect(
      told()
        .node([`${KEY}=arm64:NoSchedule`])
        .problems.join(),
    ).toMatch(/is of amd64/);
    expect(told().node([AMD_TAINT], "controller", []).problems.join()).toMatch(/records {2}and has/);
    const foreign = told().node(["example.com/a=b:NoSchedule"], "story");
    expect(foreign.node([AMD_TAINT]).problems.join()).toMatch(/foreign things/);
  });

  it("flaps when it goes and comes back by itself", () => {
    const before = told().node([AMD_TAINT]);
    expect(before.node([]).node([AMD_TAINT]).problems.join()).toMatch(/flapped/);
  });

  it("does not flap when somebody has taken it off", () => {
    const before = told().node([AMD_TAINT]);
    expect(before.node([], "story").node([AMD_TAINT]).problems).toEqual([]);
  });
});

describe("a toleration", () => {
  const pod = (images: readonly string[]): Told => told().pod({ images });

  it("is given for what the pod can run on", () => {
    expect(pod(["both"]).podBecomes(appended(forAmd, forArm)).problems).toEqual([]);
    expect(pod(["amd"]).podBecomes(appended(forArm)).problems.join()).toMatch(/for no reason/);
    expect(pod(["what"]).podBecomes(appended(forAll)).problems.join()).toMatch(/for no reason/);
    expect(pod(["amd", "arm"]).podBecomes(appended(forAmd)).problems.join()).toMatch(/for no reason/);
  });

  it("is given once, with the effect of the taint, and without an operator for one value", () => {
    const twice = pod(["amd"]).podBecomes(appended(forAmd)).podBecomes(appended(forAmd));
    expect(twice.problems.join()).toMatch(/tolerates twice/);
    const others: readonly Toleration[] = [
      { ...forAmd, effect: "NoExecute" },
      { ...forAmd, operator: "Equal" },
    ];
    for (const other of others)
      expect(pod(["amd"]).podBecomes(appended(other)).problems.join()).toMatch(/for no reason/);
  });

  it("is never taken away, of pods or of DaemonSets", () => {
    const lost = pod(["amd"]).podBecomes(() => ({ tolerations: [forAmd] }));
    expect(lost.problems.join()).toMatch(/lost a toleration/);
    const set = told().daemonSet([forAmd], "story").daemonSet([]);
    expect(set.problems.join()).toMatch(/lost a toleration/);
  });

  it("is of no use without a policy that taints", () => {
    const idle = told(affinity).pod({ images: ["amd"] });
    expect(idle.podBecomes(appended(forAmd)).problems.join()).toMatch(/for no reason/);
  });
});

describe("a pod that is held", () => {
  const held = (images: readonly string[]): Told => told(affinity).pod({ images, gated: true });
  const lifted = ({ schedulingGates }: NonNullable<Pod["spec"]>): object => ({
    schedulingGates: schedulingGates?.slice(0, 1),
  });
  const released =
    (...architectures: readonly string[]) =>
    (spec: NonNullable<Pod["spec"]>): object => ({
      ...lifted(spec),
      affinity: narrowed(spec.affinity, architectures),
    });

  it("is let go narrowed to what it can run on, in one write", () => {
    expect(held(["amd"]).podBecomes(released("amd64")).problems).toEqual([]);
    expect(held(["amd"]).podBecomes(lifted).problems.join()).toMatch(/let go with the affinity/);
    expect(held(["amd"]).podBecomes(released("amd64", "arm64")).problems.join()).toMatch(/let go with/);
    const first = held(["amd"]).podBecomes(({ affinity: it }) => ({ affinity: narrowed(it, ["amd64"]) }));
    expect(first.problems.join()).toMatch(/kept with the affinity/);
  });

  it("stays while nobody knows, and where it can run nowhere", () => {
    expect(held(["what"]).podBecomes(lifted).problems.join()).toMatch(/let go with/);
    expect(held(["amd", "arm"]).podBecomes(lifted).problems.join()).toMatch(/let go with/);
  });

  it("I-11 gets its condition where it can run nowhere, and only there; those of others stay", () => {
    const ours = { type: "berth.dev/ArchitectureFits", status: "False", reason: "NoCommonArchitecture" };
    const said = (images: readonly string[], ...conditions: readonly (typeof ours)[]): readonly string[] =>
      held(images).changes<Pod>(pods, (it) => ({ ...it, status: { ...it.status, conditions } })).problems;
    expect(said(["amd", "arm"], ours)).toEqual([]);
    expect(said(["amd"], ours).join()).toMatch(/got its condition for no reason/);
    expect(said(["amd", "arm"], { ...ours, type: "Ready" }).join()).toMatch(/foreign things/);
  });

  it("goes as it is when the policy has gone, or holds none", () => {
    expect(held(["what"]).policyGoes().podBecomes(lifted).problems).toEqual([]);
    expect(held(["what"]).policy(taint).podBecomes(lifted).problems).toEqual([]);
  });

  it("loses no gate of anybody else", () => {
    const bare = held(["amd"]).podBecomes((spec) => ({ ...released("amd64")(spec), schedulingGates: [] }));
    expect(bare.problems.join()).toMatch(/lost a gate of somebody else/);
  });
});

describe("what is none of its business", () => {
  it("is a pod that runs", () => {
    const runs = told().pod({ images: ["amd"], node: "n1" });
    expect(runs.podBecomes(appended(forAmd)).problems.join()).toMatch(/runs, and was changed/);
  });

  it("is everything else of pods, DaemonSets and policies, and whether they are there", () => {
    const pod = told().pod({ images: ["amd"] });
    expect(pod.podBecomes(() => ({ priority: 1 })).problems.join()).toMatch(/foreign things/);
    const set = told().daemonSet([], "story");
    const relabelled = set.changes<DaemonSet>(daemonSets, (it) => ({
      ...it,
      metadata: { ...it.metadata, labels: { a: "b" } },
    }));
    expect(relabelled.problems.join()).toMatch(/foreign things/);
    const edited = told().changes(architecturePolicies, (it) => ({ ...it, spec: specOf(affinity) }));
    expect(edited.problems.join()).toMatch(/foreign things/);
    expect(
      told()
        .pod({ images: ["amd"] })
        .removes(pods)
        .problems.join(),
    ).toMatch(/DELETED by the controller/);
  });
});

describe("how old what a write goes by may be", () => {
  /** The policy goes, then a pod comes, and gets its toleration so many steps later. */
  function given(steps: number): readonly string[] {
    const history = told().node([AMD_TAINT]);
    history.step = "policy-goes";
    history.policyGoes();
    history.step = "pod-comes";
    history.pod({ images: ["amd"] });
    for (let step = 0; step < steps; step++) {
      history.step = `later-${step}`;
      history.node([AMD_TAINT], "story");
    }
    return history.podBecomes(appended(forAmd)).problems;
  }

  it("is the step before, and not the one before that", () => {
    expect(given(0)).toEqual([]);
    expect(given(1).join()).toMatch(/for no reason/);
  });

  it("is never before the start, when all that is there comes in the first list", () => {
    const lifted = told(affinity).pod({ images: ["amd"], gated: true });
    expect(lifted.podBecomes(() => ({ schedulingGates: [{ name: FOREIGN_GATE }] })).problems).not.toEqual([]);
  });
});
