import type { DaemonSet, Node, Pod, PodSpec, Taint } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { mergeContributions } from "../../node/merge.ts";
import { planNode } from "../../node/plan.ts";
import { ownedMarks, recordOf } from "../../node/record.ts";
import { NEW_YEAR } from "../../node/testing/labels.ts";
import { makeNode } from "../../node/testing/world.ts";
import { bindFootprints } from "../capability.ts";
import { footprintsOf, type Specs } from "../testing/footprints.ts";
import { makeAteom, sightOf } from "../testing/pods.ts";
import { type AgentForecast, type FootprintChanges, FootprintForecast } from "./forecast.ts";

const ATELET: Specs = { atelet: { preset: "agent-substrate/pr-134" } };
const LABEL = "ate.dev/atelet";

function atelet(spec: Partial<PodSpec> = {}): DaemonSet {
  return {
    metadata: { namespace: "ate-system", name: "atelet", uid: "atelet", resourceVersion: "1" },
    spec: {
      selector: {},
      template: {
        spec: {
          priorityClassName: "system-node-critical",
          nodeSelector: { [LABEL]: "true" },
          containers: [{ name: "atelet" }],
          ...spec,
        },
      },
    },
  };
}

interface World {
  readonly nodes: readonly Node[];
  readonly pods?: readonly Pod[] | undefined;
  readonly specs?: Specs;
  /** `undefined`: they could not be read. */
  readonly daemonSet?: DaemonSet | null | undefined;
  /** Names of pods whose owners have not been read. */
  readonly ownersUnknown?: ReadonlySet<string>;
}

/** Plans all nodes, as `berth plan` does. */
function forecast({ nodes, pods, specs = ATELET, daemonSet, ownersUnknown }: World): FootprintChanges {
  const footprints = footprintsOf(specs);
  const seen = sightOf({ pods, ...(ownersUnknown && { ownersUnknown }) });
  const observations = { ...seen, daemonSet: () => daemonSet };
  const capability = bindFootprints({ footprints: () => footprints, observations });
  const all = new FootprintForecast(footprints, observations);
  for (const node of nodes) {
    const view = { node, owned: ownedMarks(recordOf(node), "berth") };
    const contribution = capability.contribute(view, NEW_YEAR);
    const merged = mergeContributions([contribution]);
    const plan = planNode({ node, merged, installation: "berth", now: NEW_YEAR });
    all.add(plan, contribution.decision.outcomes);
  }
  const [changes] = all.footprints();
  if (changes === undefined) throw new Error("there is no footprint");
  return changes;
}

const node = (name: string, labels: Readonly<Record<string, string>> = {}): Node =>
  makeNode({ name, labels });
const tainted = (name: string, taint: Taint): Node => ({ ...node(name), spec: { taints: [taint] } });
const microvm: Taint = { key: "ate.dev/sandboxClass", value: "microvm", effect: "NoSchedule" };

describe("a footprint's forecast", () => {
  it("names the nodes that gain the agent and those that lose it, and none that stays as it is", () => {
    const nodes = [node("n3"), node("n1"), node("n2", { [LABEL]: "true" }), node("n4", { [LABEL]: "true" })];
    const pods = ["n3", "n1", "n4"].map((at) => makeAteom("A", `a-${at}`, { node: at }));
    expect(forecast({ nodes, pods, daemonSet: atelet() })).toMatchObject({
      footprint: "cluster/atelet",
      label: "ate.dev/atelet=true",
      nodes: 4,
      needed: 3,
      unknown: 0,
      gain: ["n1", "n3"],
      lose: ["n2"],
    });
  });

  it("names the nodes that do without the agent", () => {
    const nodes = Array.from({ length: 48 }, (_, at) => node(`n${at}`));
    const pods = [makeAteom("A", "a", { node: "n7" })];
    const { agent } = forecast({ nodes, pods, daemonSet: atelet() });
    expect(agent).toEqual({
      daemonSet: "ate-system/atelet",
      follows: true,
      problems: [],
      unserved: [],
      saved: nodes.flatMap(({ metadata: { name = "" } = {} }) => (name === "n7" ? [] : [name])).toSorted(),
    });
  });

  it("does not count nodes to which the agent could not come anyway", () => {
    const nodes = [node("n1"), tainted("n2", microvm)];
    expect(forecast({ nodes, pods: [], daemonSet: atelet() }).agent?.saved).toHaveLength(1);
  });

  it("names the nodes that need the agent and where it cannot run, with the taint", () => {
    const nodes = [tainted("n2", microvm), tainted("n1", microvm)];
    const pods = [makeAteom("A", "a", { node: "n1" }), makeAteom("A", "b", { node: "n2" })];
    const { agent } = forecast({ nodes, pods, daemonSet: atelet() });
    expect(agent?.unserved).toEqual([
      expect.objectContaining({ node: "n1", message: expect.stringContaining("microvm:NoSchedule") }),
      expect.objectContaining({ node: "n2", reason: "AgentUnschedulable" }),
    ]);
    expect(agent?.saved).toEqual([]);
  });

  it("says that nothing is saved while the DaemonSet does not follow", () => {
    const { agent } = forecast({ nodes: [node("n1")], pods: [], daemonSet: atelet({ nodeSelector: {} }) });
    expect(agent).toMatchObject({ follows: false, problems: [{ reason: "AgentEverywhere" }] });
  });

  it("says once that there is no DaemonSet, and nothing of one that could not be read", () => {
    const world = { nodes: [node("n1")], pods: [makeAteom("A", "a")] };
    const { agent } = forecast({ ...world, daemonSet: null });
    expect(agent).toMatchObject({ problems: [{ reason: "DaemonSetMissing" }], unserved: [], saved: [] });
    expect(forecast({ ...world, daemonSet: undefined })).not.toHaveProperty("agent");
  });

  it("takes nothing from a node of which it is not known", () => {
    const nodes = [node("n1", { [LABEL]: "true" }), node("n2")];
    expect(forecast({ nodes, pods: undefined, daemonSet: atelet() })).toMatchObject({
      unknown: 2,
      needed: 0,
      gain: [],
      lose: [],
      agent: { saved: [] },
    });
  });

  it("counts no node as saved on which a pod may need the agent, for its owners have not been read", () => {
    const pods = [makeAteom("A", "a", { node: "n1" })];
    const ownersUnknown = new Set(["a"]);
    const { agent } = forecast({ nodes: [node("n1")], pods, ownersUnknown, daemonSet: atelet() });
    expect(agent?.saved).toEqual([]);
  });

  it("finds nothing wrong with an agent that is not looked at", () => {
    const specs: Specs = { atelet: { ...ATELET.atelet, agent: { nodeSelector: "Off" } } };
    const daemonSet = atelet({ nodeSelector: {}, priorityClassName: "" });
    const { agent } = forecast({ nodes: [node("n1")], pods: [], specs, daemonSet });
    expect(agent?.problems).toEqual([]);
  });

  it("leaves out nodes that are excluded, and says how long an agent stays", () => {
    const excludeSelector = { matchLabels: { type: "virtual-kubelet" } };
    const specs: Specs = {
      atelet: { ...ATELET.atelet, node: { excludeSelector }, release: { delay: "2m" } },
    };
    const nodes = [node("n1"), node("n2", { type: "virtual-kubelet" })];
    expect(forecast({ nodes, pods: [], specs, daemonSet: atelet() })).toMatchObject({
      nodes: 1,
      delayMs: 120_000,
      agent: { saved: ["n1"] },
    });
  });
});

describe("the node selector of a DaemonSet", () => {
  const MANAGED: Specs = { atelet: { ...ATELET.atelet, agent: { nodeSelector: "Manage" } } };
  const everywhere = atelet({ nodeSelector: {} });
  const selectorOf = (world: World): AgentForecast["selector"] => forecast(world).agent?.selector;

  it("would be set: its pods end where nobody needs it, and on nodes that are excluded or only marked by now", () => {
    const excludeSelector = { matchLabels: { type: "virtual-kubelet" } };
    const specs: Specs = { atelet: { ...MANAGED.atelet, node: { excludeSelector } } };
    const nodes = [
      node("n4", { type: "virtual-kubelet" }),
      node("n1"),
      node("n2"),
      node("n3", { [LABEL]: "true" }),
      tainted("n5", microvm),
    ];
    const pods = [makeAteom("A", "a", { node: "n1" })];
    expect(selectorOf({ nodes, pods, specs, daemonSet: everywhere })).toEqual({
      ends: ["n2", "n3", "n4"],
    });
  });

  it("is left as it is where it asks for the label already, is only verified, or there is no DaemonSet", () => {
    const world = { nodes: [node("n1")], pods: [] };
    expect(selectorOf({ ...world, specs: MANAGED, daemonSet: atelet() })).toBeUndefined();
    expect(selectorOf({ ...world, daemonSet: everywhere })).toBeUndefined();
    expect(selectorOf({ ...world, specs: MANAGED, daemonSet: null })).toBeUndefined();
  });

  it("waits while it is not known of every node whether the agent is needed there", () => {
    const world = { nodes: [node("n1")], pods: undefined, specs: MANAGED, daemonSet: everywhere };
    expect(selectorOf(world)).toMatchObject({ waits: expect.stringContaining("whether 1 node needs it") });
  });
});
