/** The oracle of the architecture stories finds each thing that it is there for, and nothing in what is right. */
import { type DaemonSet, daemonSets, type Pod, pods, type Toleration } from "@berth/kube";
import { architecturePolicies, ORIGINAL_ARCHITECTURE_KEY as KEY } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { ArchitectureHistory as Told } from "./architecture-history.ts";
import { FOREIGN_GATE, type StoryPolicy, specOf } from "./architecture-objects.ts";
import { narrowed } from "./architecture-oracle.ts";

const FACTS = { amd: ["amd64"], arm: ["arm64"], both: ["amd64", "arm64"] };
const taint: StoryPolicy = { mode: "Taint", facts: FACTS };
const affinity: StoryPolicy = { mode: "Affinity", facts: FACTS };
const forAmd: Toleration = { key: KEY, value: "amd64", effect: "NoSchedule" };
const forArm: Toleration = { ...forAmd, value: "arm64" };
const forAll: Toleration = { key: KEY, operator: "Exists", effect: "NoSchedule" };
const AMD = [`${KEY}=amd64:NoSchedule`];
const FOREIGN_TAINT = ["example.com/a=b:NoSchedule"];

/** A cluster with nothing but a node, or a policy before it. */
const bare = (): Told => new Told().node([], "story");
const told = (policy: StoryPolicy = taint): Told => new Told().policy(policy).node([], "story");
const tainted = (): Told => told().node(AMD);
const early = (before: Told): Told => before.policy(taint).node(AMD);
const pod = (...images: readonly string[]): Told => told().pod({ images });
const held = (...images: readonly string[]): Told => told(affinity).pod({ images, gated: true });

type PodSpec = NonNullable<Pod["spec"]>;
const given = (told: Told, ...more: readonly Toleration[]): Told =>
  told.podBecomes(({ tolerations = [] }) => ({ tolerations: [...tolerations, ...more] }));
const lifted = ({ schedulingGates }: PodSpec): object => ({ schedulingGates: schedulingGates?.slice(0, 1) });
const released =
  (...architectures: readonly string[]) =>
  (spec: PodSpec): object => ({ ...lifted(spec), affinity: narrowed(spec.affinity, architectures) });

type Case = readonly [string, Told, RegExp];
const RIGHT = /^$/;
const TOO_EARLY = /tainted before (Pod|DaemonSet) .* was covered/;
const FOR_NOTHING = /for no reason/;
const FOREIGN = /foreign things/;

describe("a taint", () => {
  const later = tainted()
    .pod({ images: ["both"] })
    .node([], "story")
    .node(AMD);
  const covered = given(pod("amd").daemonSet([], "story"), forAmd).daemonSet([forAmd, forArm]);
  it.each<Case>([
    ["is right once all that waits is covered", covered.node(AMD), RIGHT],
    ["is right before a pod that can run nowhere", pod("amd", "arm").node(AMD), RIGHT],
    ["is too early before a pod", early(bare().pod({ images: ["both"], tolerations: [forAmd] })), TOO_EARLY],
    ["is too early before an unknown image", early(bare().pod({ images: ["what"] })), TOO_EARLY],
    ["is too early before a DaemonSet", early(bare().daemonSet([forAmd], "story")), TOO_EARLY],
    ["may come where another node has it", later, RIGHT],
    ["goes when the policy does", tainted().policyGoes().node([]), RIGHT],
    ["does not go before", tainted().node([]), /untainted though/],
    ["does not come back without a policy", tainted().policyGoes().node([]).node(AMD), /flapped/],
    ["does not come without a policy", bare().node(AMD), /though no policy does/],
    ["has the node's own value", told().node([`${KEY}=arm64:NoSchedule`]), /is of amd64/],
    ["is recorded", told().node(AMD, "controller", []), /records {2}and has/],
    ["leaves others alone", told().node(FOREIGN_TAINT, "story").node(AMD), FOREIGN],
    ["flaps when it goes and comes back by itself", tainted().node([]).node(AMD), /flapped/],
    ["does not flap when somebody has taken it off", tainted().node([], "story").node(AMD), RIGHT],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("a toleration", () => {
  it.each<Case>([
    ["is given for what the pod can run on", given(pod("both"), forAmd, forArm), RIGHT],
    ["is not given for what it cannot run on", given(pod("amd"), forArm), FOR_NOTHING],
    ["is not given while nobody knows", given(pod("what"), forAll), FOR_NOTHING],
    ["is not given where the pod can run nowhere", given(pod("amd", "arm"), forAmd), FOR_NOTHING],
    ["is given once", given(given(pod("amd"), forAmd), forAmd), /tolerates twice/],
    ["has the effect of the taint", given(pod("amd"), { ...forAmd, effect: "NoExecute" }), FOR_NOTHING],
    ["has no operator for one value", given(pod("amd"), { ...forAmd, operator: "Equal" }), FOR_NOTHING],
    ["is never lost by pods", pod("amd").podBecomes(() => ({ tolerations: [] })), /lost a/],
    ["is never lost by sets", told().daemonSet([forAmd], "story").daemonSet([]), /lost a toleration/],
    ["needs a policy that taints", given(told(affinity).pod({ images: ["amd"] }), forAmd), FOR_NOTHING],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("a pod that is held", () => {
  const ours = { type: "berth.dev/ArchitectureFits", status: "False", reason: "NoCommonArchitecture" };
  const said = (of: Told, type = ours.type): Told =>
    of.changes<Pod>(pods, (it) => ({ ...it, status: { ...it.status, conditions: [{ ...ours, type }] } }));
  const ungated = (spec: PodSpec): object => ({ ...released("amd64")(spec), schedulingGates: [] });
  const kept = ({ affinity: it }: PodSpec): object => ({ affinity: narrowed(it, ["amd64"]) });

  it.each<Case>([
    ["is let go narrowed to what it can run on", held("amd").podBecomes(released("amd64")), RIGHT],
    ["is not let go as it was", held("amd").podBecomes(lifted), /let go with the affinity/],
    ["is narrowed as far as it has to be", held("amd").podBecomes(released("amd64", "arm64")), /let go with/],
    ["is narrowed in the same write", held("amd").podBecomes(kept), /kept with the affinity/],
    ["stays while nobody knows", held("what").podBecomes(lifted), /let go with/],
    ["stays where it can run nowhere", held("amd", "arm").podBecomes(lifted), /let go with/],
    ["I-11 gets its condition where it can run nowhere", said(held("amd", "arm")), RIGHT],
    ["I-11 gets its condition only there", said(held("amd")), /got its condition for no reason/],
    ["I-11 keeps the conditions of others", said(held("amd", "arm"), "Ready"), FOREIGN],
    ["goes as it is when the policy has gone", held("what").policyGoes().podBecomes(lifted), RIGHT],
    ["goes as it is when the policy holds none", held("what").policy(taint).podBecomes(lifted), RIGHT],
    ["loses no gate of anybody else", held("amd").podBecomes(ungated), /lost a gate of somebody else/],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("what is none of its business", () => {
  const set = told().daemonSet([], "story");
  const relabelled = (it: DaemonSet): DaemonSet => ({
    ...it,
    metadata: { ...it.metadata, labels: { a: "b" } },
  });

  it.each<Case>([
    ["a pod that runs", given(told().pod({ images: ["amd"], node: "n1" }), forAmd), /runs, and was changed/],
    ["other fields of a pod", pod("amd").podBecomes(() => ({ priority: 1 })), FOREIGN],
    ["labels of a DaemonSet", set.changes<DaemonSet>(daemonSets, relabelled), FOREIGN],
    ["a policy", told().changes(architecturePolicies, (it) => ({ ...it, spec: specOf(affinity) })), FOREIGN],
    ["whether a pod is there", pod("amd").removes(pods), /DELETED by the controller/],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});

describe("how old what a write goes by may be", () => {
  /** The policy goes, then a pod comes, and gets its toleration so many steps later. */
  function late(steps: number): Told {
    const history = tainted()
      .next("policy-goes")
      .policyGoes()
      .next("pod-comes")
      .pod({ images: ["amd"] });
    for (let step = 0; step < steps; step++) history.next(`later-${step}`).node(AMD, "story");
    return given(history, forAmd);
  }
  const atStart = held("amd").podBecomes(() => ({ schedulingGates: [{ name: FOREIGN_GATE }] }));

  it.each<Case>([
    ["is the step before", late(0), RIGHT],
    ["is not the one before that", late(1), FOR_NOTHING],
    ["is never before the start, when all that is there comes in the first list", atStart, /./],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});
