/** A node whose footprint has come to set another label, and what is said of its agent meanwhile. */
import type { DaemonSet, Node, Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { settle } from "../../node/testing/labels.ts";
import { makeNode } from "../../node/testing/world.ts";
import { bindFootprints } from "../capability.ts";
import type { NodeFootprintSpec } from "../document.ts";
import { footprintsOf } from "../testing/footprints.ts";
import { makePod, sightOf } from "../testing/pods.ts";
import { type AgentVerdict, checkAgent } from "./check.ts";
import { SELECTOR_ANNOTATION } from "./selector.ts";

const [OLD, NEW] = ["x.test/old", "x.test/new"];
const AGENT = { namespace: "x", name: "agent" };
type Mode = NonNullable<NonNullable<NodeFootprintSpec["agent"]>["nodeSelector"]>;

const compiled = (key: string, nodeSelector: Mode = "Manage") =>
  footprintsOf({
    agent: {
      workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
      node: { label: { key } },
      agent: { daemonSet: AGENT, nodeSelector },
    },
  });

function agentAsking(keys: readonly string[], record?: string): DaemonSet {
  const nodeSelector = Object.fromEntries(keys.map((key) => [key, "true"]));
  const spec = { containers: [], nodeSelector, priorityClassName: "system-node-critical" };
  return {
    metadata: { ...AGENT, ...(record !== undefined && { annotations: { [SELECTOR_ANNOTATION]: record } }) },
    spec: { selector: {}, template: { spec } },
  };
}

interface Generations {
  readonly generation: number;
  readonly observedGeneration: number;
}

function observed(daemonSet: DaemonSet, { generation, observedGeneration }: Generations): DaemonSet {
  const counts = {
    currentNumberScheduled: 0,
    desiredNumberScheduled: 0,
    numberMisscheduled: 0,
    numberReady: 0,
  };
  return {
    ...daemonSet,
    metadata: { ...daemonSet.metadata, generation },
    status: { ...counts, observedGeneration },
  };
}

const web = makePod("web", { labels: { app: "web" } });

interface Around {
  readonly pods?: readonly Pod[] | undefined;
  /** `null`: there is none. `undefined`: not known. */
  readonly daemonSet: DaemonSet | null | undefined;
  readonly mode?: Mode;
}

/** The node once everything is decided and written. */
function after(node: Node, key: string, { pods, daemonSet, mode }: Around): Node {
  const footprints = compiled(key, mode);
  const sight = { ...sightOf({ pods }), daemonSet: () => daemonSet };
  return settle(node, [bindFootprints({ footprints: () => footprints, sight })]);
}

const labelsOf = ({ metadata }: Node): readonly string[] =>
  [OLD, NEW].filter((key) => metadata?.labels?.[key] !== undefined);

const before = after(makeNode({ name: "n1" }), OLD, { pods: [web], daemonSet: null });

describe("a node whose footprint sets another label", () => {
  it.each<[string, Around, readonly string[]]>([
    [
      "keeps the old one while the agent asks for it",
      { pods: [web], daemonSet: agentAsking([OLD]) },
      [OLD, NEW],
    ],
    [
      "also where Berth does not manage it",
      { pods: [web], daemonSet: agentAsking([OLD]), mode: "Verify" },
      [OLD, NEW],
    ],
    [
      "keeps it while it is not known what the agent asks for",
      { pods: [web], daemonSet: undefined },
      [OLD, NEW],
    ],
    ["keeps it while its pods are not known", { pods: undefined, daemonSet: agentAsking([OLD]) }, [OLD]],
    ["loses it once the agent asks for it no longer", { pods: [web], daemonSet: agentAsking([NEW]) }, [NEW]],
    [
      "keeps it while the controller goes by the template before",
      { pods: [web], daemonSet: observed(agentAsking([NEW]), { generation: 3, observedGeneration: 2 }) },
      [OLD, NEW],
    ],
    [
      "loses it once the controller has seen the template",
      { pods: [web], daemonSet: observed(agentAsking([NEW]), { generation: 3, observedGeneration: 3 }) },
      [NEW],
    ],
    ["loses it without an agent", { pods: [web], daemonSet: null }, [NEW]],
    [
      "loses it where nobody looks at the agent",
      { pods: [web], daemonSet: agentAsking([OLD]), mode: "Off" },
      [NEW],
    ],
    ["loses it where no pod needs the agent", { pods: [], daemonSet: agentAsking([OLD]) }, []],
  ])("%s", (_, around, expected) => {
    const node = after(before, NEW, around);
    expect(labelsOf(node)).toEqual(expected);
    expect(after(node, NEW, around)).toBe(node);
  });

  describe("and runs its agent also where it is not known to be idle", () => {
    const eager = (key: string) =>
      footprintsOf({
        agent: {
          workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
          node: { label: { key } },
          agent: { daemonSet: AGENT, nodeSelector: "Manage", placement: "Eager" },
        },
      });
    const settled = (node: Node, key: string, { pods, daemonSet }: Around): Node => {
      const sight = { ...sightOf({ pods }), daemonSet: () => daemonSet };
      return settle(node, [bindFootprints({ footprints: () => eager(key), sight })]);
    };
    const valuesOf = ({ metadata }: Node): readonly unknown[] =>
      [OLD, NEW].map((key) => metadata?.labels?.[key]);
    const around = { pods: [web], daemonSet: undefined };

    it("keeps none that says it is idle: that would keep the agent away", () => {
      const idle = settled(makeNode({ name: "n1" }), OLD, { pods: [], daemonSet: null });
      expect(valuesOf(idle)).toEqual(["false", undefined]);
      const node = settled(idle, NEW, around);
      expect(valuesOf(node)).toEqual([undefined, "true"]);
      expect(settled(node, NEW, around)).toBe(node);
      expect(valuesOf(settled(idle, NEW, { ...around, daemonSet: agentAsking([OLD]) }))).toEqual([
        undefined,
        "true",
      ]);
    });

    it("keeps one that says it is needed", () => {
      const needed = settled(makeNode({ name: "n1" }), OLD, { pods: [web], daemonSet: null });
      expect(valuesOf(settled(needed, NEW, around))).toEqual(["true", "true"]);
      expect(valuesOf(settled(needed, NEW, { ...around, daemonSet: agentAsking([OLD]) }))).toEqual([
        "true",
        "true",
      ]);
    });
  });

  it("keeps none that somebody else has put there for longer than its need", () => {
    const theirs = makeNode({ name: "n1", labels: { [OLD]: "true" } });
    const around = { pods: [web], daemonSet: agentAsking([OLD]) };
    expect(labelsOf(after(theirs, NEW, around))).toEqual([OLD, NEW]);
    expect(labelsOf(after(after(theirs, NEW, around), NEW, { pods: [], daemonSet: null }))).toEqual([OLD]);
  });
});

describe("what is said of an agent that asks for the old label", () => {
  const kept = after(before, NEW, { pods: [web], daemonSet: agentAsking([OLD]) });
  const fresh = makeNode({ name: "n2" });
  const verdict = (daemonSet: DaemonSet, nodes: readonly Node[], mode: Mode = "Manage"): AgentVerdict => {
    const [footprint] = compiled(NEW, mode).footprints;
    if (footprint?.agent === undefined) throw new Error("no footprint");
    return checkAgent({ ...footprint, agent: footprint.agent }, daemonSet, nodes);
  };
  const ASKS = `the DaemonSet x/agent still asks for ${OLD}, which this footprint no longer sets`;
  const REMEDY = `; Berth has not put it there: take ${OLD} off its node selector`;

  it("is that it does, and what to do, where Berth has not put it there", () => {
    expect(verdict(agentAsking([OLD, NEW]), [kept]).problems).toEqual([
      { reason: "AgentUnschedulable", message: `${ASKS}${REMEDY}` },
    ]);
    const [, everywhere] = verdict(agentAsking([OLD]), [kept], "Verify").problems;
    expect(everywhere?.reason).toBe("AgentEverywhere");
    expect(verdict(agentAsking([OLD]), [kept], "Verify").problems[0]?.message).toBe(
      `${ASKS}; take ${OLD} off its node selector, and have it ask for ${NEW}=true`,
    );
  });

  it("is with a node that cannot get it what to do as well", () => {
    expect(verdict(agentAsking([OLD, NEW]), [fresh, kept]).unserved).toEqual([
      {
        node: "n2",
        reason: "AgentUnschedulable",
        message: `the DaemonSet x/agent cannot run on the node n2: it asks for ${OLD}=true, which the node does not have${REMEDY}`,
      },
    ]);
  });

  it("is nothing where Berth takes it away itself, nor of what the footprint has never set", () => {
    const reasonsOf = ({ unserved, problems }: AgentVerdict): readonly string[] =>
      [...unserved, ...problems].map(({ reason }) => reason);
    expect(reasonsOf(verdict(agentAsking([OLD, NEW], `${OLD}=true`), [kept]))).toEqual([]);
    const named = {
      ...kept,
      metadata: { ...kept.metadata, labels: { ...kept.metadata?.labels, os: "true" } },
    };
    expect(reasonsOf(verdict(agentAsking(["os", NEW]), [named]))).toEqual([]);
    expect(reasonsOf(verdict(agentAsking([NEW]), [kept]))).toEqual([]);
  });
});
