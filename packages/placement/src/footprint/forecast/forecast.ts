/** Effect of a plan for many nodes on footprints: where agents would run, and how their DaemonSets would change. */
import type { RuleOutcome } from "../../node/capability.ts";
import { expectation } from "../../node/daemonset-placement.ts";
import { labelId, standingValue } from "../../node/mark.ts";
import type { NodePlan } from "../../node/plan.ts";
import {
  type AgentProblem,
  agentProblemOn,
  agentProblems,
  isAgentChecked,
  type UnservedNode,
} from "../agent/check.ts";
import { selectorPatch, staysAway } from "../agent/selector.ts";
import type { Footprint, Footprints } from "../footprint.ts";
import type { FootprintObservations } from "../footprint-observations.ts";

export interface AgentForecast {
  /** `namespace/name`. */
  readonly daemonSet: string;
  /** The DaemonSet asks for the label. Otherwise the label saves no pods. */
  readonly follows: boolean;
  readonly problems: readonly AgentProblem[];
  /** Nodes that need it and where it cannot run, in order of name. */
  readonly unserved: readonly UnservedNode[];
  /** Nodes that could run the agent but do not need it, sorted by name. */
  readonly saved: readonly string[];
  /** What `Manage` would change. Absent: the DaemonSet already asks for the label, or Berth does not manage it. */
  readonly selector?: {
    /** Why Berth would not change the selector now. Absent: Berth would change it. */
    readonly waits?: string;
    /** Nodes on which its pods end at once, by name. */
    readonly ends: readonly string[];
  };
}

/** One footprint, with the nodes that gain or lose the label by the plan, sorted by name. */
export interface FootprintChanges {
  readonly footprint: string;
  /** Its document has a fault, so Berth uses its version before the fault. */
  readonly goesOn: boolean;
  /** `ate.dev/atelet=true`. */
  readonly label: string;
  /** Nodes that are not excluded. */
  readonly nodes: number;
  readonly needed: number;
  readonly unknown: number;
  readonly gain: readonly string[];
  readonly lose: readonly string[];
  /** How long after its last pod a node loses the agent, ms; absent when at once. */
  readonly delayMs?: number;
  /** Absent when the footprint names no DaemonSet, or DaemonSets could not be read. */
  readonly agent?: AgentForecast;
}

/** Takes one plan after the other, and keeps only names of nodes. */
export class FootprintForecast {
  readonly #counts: readonly Count[];

  constructor(
    { footprints, faults }: Pick<Footprints, "footprints" | "faults">,
    observations: Pick<FootprintObservations, "daemonSet">,
  ) {
    const faulty = new Set(faults.map(({ source, name }) => `${source}/${name}`));
    this.#counts = footprints.map((footprint) =>
      toCount(footprint, faulty.has(footprint.rule), observations),
    );
  }

  /** The plan must hold the whole node. @param outcomes of the footprint decision on the node. */
  add({ node, changes }: Pick<NodePlan, "node" | "changes">, outcomes: readonly RuleOutcome[] = []): void {
    const name = node.metadata?.name ?? "";
    for (const count of this.#counts) {
      const { footprint, agent } = count;
      const { key, value } = footprint.label;
      const phases = new Set(outcomes.flatMap(({ rule, phase }) => (rule === footprint.rule ? phase : [])));
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
      // `problems` already reports a missing DaemonSet, so do not repeat it for each node.
      if (problem !== undefined && isNeeded && agent.daemonSet !== null && isAgentChecked(footprint))
        agent.unserved.push({ node: name, ...problem });
    }
  }

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

type Count = ReturnType<typeof toCount>;

function toCount(
  footprint: Footprint,
  goesOn: boolean,
  observations: Pick<FootprintObservations, "daemonSet">,
) {
  const names = (): string[] => [];
  const { agent } = footprint;
  // `null`: there is none.
  const daemonSet = agent && observations.daemonSet(agent.namespace, agent.name);
  const unserved: UnservedNode[] = [];
  return {
    footprint,
    goesOn,
    nodes: 0,
    needed: 0,
    unknown: 0,
    gain: names(),
    lose: names(),
    agent:
      agent === undefined || daemonSet === undefined
        ? undefined
        : { footprint: { ...footprint, agent }, daemonSet, unserved, saved: names(), ends: names() },
  };
}

function toForecast(
  { footprint, daemonSet, unserved, saved, ends }: NonNullable<Count["agent"]>,
  unknown: number,
): AgentForecast {
  const { namespace, name, nodeSelector } = footprint.agent;
  const isThere = daemonSet !== null && daemonSet.metadata?.deletionTimestamp === undefined;
  const waits = `berth does not know yet whether ${unknown} ${unknown === 1 ? "node needs" : "nodes need"} it`;
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
