/** What a plan over many nodes means for footprints: where agents would run, and that their DaemonSets follow. */
import type { DaemonSet } from "@berth/kube";
import type { RuleOutcome } from "../../node/capability.ts";
import { expectation } from "../../node/daemonset-placement.ts";
import { labelId, standingValue } from "../../node/mark.ts";
import type { NodePlan } from "../../node/plan.ts";
import {
  type AgentProblem,
  agentProblemOn,
  agentProblems,
  type CheckedFootprint,
  isAgentChecked,
  type UnservedNode,
} from "../agent/check.ts";
import { selectorPatch, staysAway } from "../agent/selector.ts";
import type { Footprint, Footprints } from "../footprint.ts";
import type { FootprintSight } from "../footprint-sight.ts";

/** What becomes of the DaemonSet of a footprint. */
export interface AgentForecast {
  /** `namespace/name`. */
  readonly daemonSet: string;
  /** It runs only where the label has it run. Otherwise nothing is saved until it does. */
  readonly follows: boolean;
  /** What is wrong with the DaemonSet itself. */
  readonly problems: readonly AgentProblem[];
  /** Nodes that need it and where it cannot run, in order of name. */
  readonly unserved: readonly UnservedNode[];
  /** Nodes on which it could run and is known not to have to, by name. */
  readonly saved: readonly string[];
  /** What `Manage` does with it. Absent: it asks for the label already, or is left as it is. */
  readonly selector?: {
    /** Why it is not made to ask for now. Absent: it would be. */
    readonly waits?: string;
    /** Nodes on which its pods end at once, by name. */
    readonly ends: readonly string[];
  };
}

/** One footprint: the nodes to which the plan brings the label, and from which it takes it, by name. */
export interface FootprintChanges {
  readonly footprint: string;
  /** Its document has a fault, and it goes on as it was before. */
  readonly goesOn: boolean;
  /** `ate.dev/atelet=true`. */
  readonly label: string;
  /** Nodes that are not excluded. */
  readonly nodes: number;
  /** Nodes with a pod that needs the agent. */
  readonly needed: number;
  /** Nodes of which that is not known: what stands there stays. */
  readonly unknown: number;
  readonly gain: readonly string[];
  readonly lose: readonly string[];
  /** How long after its last pod a node loses the agent, ms; absent when at once. */
  readonly delayMs?: number;
  /** Absent when the footprint names no DaemonSet, or DaemonSets could not be read. */
  readonly agent?: AgentForecast;
}

/** Takes one plan after the other; keeps names only. */
export class FootprintForecast {
  readonly #counts: readonly Count[];

  constructor(
    { footprints, faults }: Pick<Footprints, "footprints" | "faults">,
    sight: Pick<FootprintSight, "daemonSet">,
  ) {
    const faulty = new Set(faults.map(({ source, name }) => `${source}/${name}`));
    this.#counts = footprints.map((footprint) => ({
      footprint,
      goesOn: faulty.has(footprint.rule),
      nodes: 0,
      needed: 0,
      unknown: 0,
      gain: [],
      lose: [],
      ...withAgent(footprint, sight),
    }));
  }

  /** The plan holds the whole node. @param outcomes what the footprints said of it. */
  add({ node, changes }: Pick<NodePlan, "node" | "changes">, outcomes: readonly RuleOutcome[] = []): void {
    const name = node.metadata?.name ?? "";
    for (const count of this.#counts) {
      const { footprint, agent } = count;
      const { key, value } = footprint.label;
      const ours = outcomes.filter(({ rule }) => rule === footprint.rule);
      const phases = new Set(ours.map(({ phase }) => phase));
      const id = labelId(key);
      const change = changes.find((it) => it.id === id && it.action !== "adopt" && it.action !== "record");
      const before = standingValue(node, id) === value;
      const after = change === undefined ? before : change.after === value;
      if (agent?.daemonSet && !after && expectation(agent.daemonSet, node, []).state === "expected")
        agent.ends.push(name);
      if (phases.has("Excluded")) continue;
      const isNeeded = phases.has("Needed") || phases.has("Pending");
      const isUnknown = phases.has("Unknown");
      count.nodes += 1;
      if (isNeeded) count.needed += 1;
      if (isUnknown) count.unknown += 1;
      if (after && !before) count.gain.push(name);
      if (before && !after) count.lose.push(name);
      if (agent === undefined) continue;
      const problem = agentProblemOn(agent.footprint, agent.daemonSet, node);
      if (problem === undefined && !after && !isUnknown) agent.saved.push(name);
      // Of a DaemonSet that is not there it is enough to say so once.
      if (problem !== undefined && isNeeded && agent.daemonSet !== null && isAgentChecked(footprint))
        agent.unserved.push({ node: name, ...problem });
    }
  }

  /** In order of the footprints. */
  footprints(): readonly FootprintChanges[] {
    return this.#counts.map(({ footprint, agent, gain, lose, ...counts }): FootprintChanges => {
      const { rule, label, releaseDelayMs } = footprint;
      return {
        footprint: rule,
        label: `${label.key}=${label.value}`,
        ...counts,
        gain: gain.toSorted(),
        lose: lose.toSorted(),
        ...(releaseDelayMs > 0 && { delayMs: releaseDelayMs }),
        ...(agent && { agent: toForecast(agent, counts.unknown) }),
      };
    });
  }
}

interface Agent {
  readonly footprint: CheckedFootprint;
  /** `null`: there is none. */
  readonly daemonSet: DaemonSet | null;
  readonly unserved: UnservedNode[];
  readonly saved: string[];
  readonly ends: string[];
}

interface Count {
  readonly footprint: Footprint;
  readonly goesOn: boolean;
  readonly agent?: Agent;
  nodes: number;
  needed: number;
  unknown: number;
  readonly gain: string[];
  readonly lose: string[];
}

function withAgent(
  footprint: Footprint,
  sight: Pick<FootprintSight, "daemonSet">,
): { readonly agent?: Agent } {
  const { agent } = footprint;
  const daemonSet = agent && sight.daemonSet(agent.namespace, agent.name);
  if (agent === undefined || daemonSet === undefined) return {};
  return { agent: { footprint: { ...footprint, agent }, daemonSet, unserved: [], saved: [], ends: [] } };
}

function toForecast({ footprint, daemonSet, unserved, saved, ends }: Agent, unknown: number): AgentForecast {
  const { namespace, name, nodeSelector } = footprint.agent;
  const isThere = daemonSet !== null && daemonSet.metadata?.deletionTimestamp === undefined;
  const waits = `it is not known of ${unknown} ${unknown === 1 ? "node" : "nodes"} whether it is needed there`;
  const isChanged = nodeSelector === "Manage" && isThere && selectorPatch(daemonSet, footprint) !== undefined;
  return {
    daemonSet: `${namespace}/${name}`,
    follows: staysAway(daemonSet?.spec?.template.spec, footprint),
    problems: isAgentChecked(footprint) ? agentProblems(footprint, daemonSet) : [],
    unserved: unserved.toSorted((a, b) => (a.node < b.node ? -1 : 1)),
    saved: saved.toSorted(),
    ...(isChanged && { selector: { ...(unknown > 0 && { waits }), ends: ends.toSorted() } }),
  };
}
