/** What a plan over many nodes means for footprints: where agents would run, and what that saves. */
import type { DaemonSet, Node } from "@berth/kube";
import type { RuleOutcome } from "../../node/capability.ts";
import { labelId, standingValue } from "../../node/mark.ts";
import type { NodePlan } from "../../node/plan.ts";
import {
  type AgentLanding,
  type AgentProblem,
  agentProblemOn,
  agentProblems,
  isAgentChecked,
  landingOn,
  type UnservedNode,
} from "../agent/check.ts";
import { staysAway } from "../agent/selector.ts";
import type { Footprint, Footprints } from "../footprint.ts";
import type { FootprintSight } from "../footprint-sight.ts";
import { type Requests, requestsOf } from "./requests.ts";
import { runsWith, type SelectorCount, type SelectorForecast, selectorCount } from "./selector.ts";

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
  /** Of one pod of it. */
  readonly requests: Requests;
  /** Nodes on which it could run and is known not to have to, by name, and what its pods would request there together. */
  readonly saved: { readonly nodes: number; readonly names: readonly string[]; readonly requests: Requests };
  /** What `Manage` has it ask for. Absent: it asks for that already, or is left as it is. */
  readonly selector?: SelectorForecast;
}

/** One footprint: the nodes to which the plan brings the agent, and from which it takes it, by name. */
export interface FootprintChanges {
  readonly footprint: string;
  /** Its document has a fault, and it goes on as it was before. */
  readonly goesOn: boolean;
  /** `ate.dev/atelet=true`. */
  readonly label: string;
  /** `Lazy`: the agent comes with the label. `Eager`: it is everywhere but where the label says that nobody needs it. */
  readonly placement: Footprint["placement"];
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
    const faulty = new Set(faults.map(({ source, footprint: name }) => `${source}/${name}`));
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
      const ours = outcomes.filter(({ rule }) => rule === footprint.rule);
      const phases = new Set(ours.map(({ phase }) => phase));
      const id = labelId(footprint.label.key);
      const change = changes.find((it) => it.id === id && it.action !== "adopt" && it.action !== "record");
      const standing = standingValue(node, id);
      const planned = change === undefined ? standing : change.after;
      agent?.selector?.add(node, planned);
      if (agent !== undefined)
        agent.landing = landingOn(agent.landing, agent.daemonSet, { node, isIdle: phases.has("Idle") });
      if (phases.has("Excluded")) continue;
      count.nodes += 1;
      const isNeeded = phases.has("Needed") || phases.has("Pending");
      if (isNeeded) count.needed += 1;
      if (phases.has("Unknown")) count.unknown += 1;
      const before = runsWith(footprint, standing);
      const after = runsWith(footprint, planned);
      if (after && !before) count.gain.push(name);
      if (before && !after) count.lose.push(name);
      const isSpared = !after && !phases.has("Unknown");
      if (agent !== undefined) look(agent, { node, name, isNeeded, isSpared });
    }
  }

  /** In order of the footprints. */
  footprints(): readonly FootprintChanges[] {
    return this.#counts.map(({ footprint, agent, gain, lose, ...counts }): FootprintChanges => {
      const { rule, label, placement, releaseDelayMs } = footprint;
      return {
        footprint: rule,
        label: `${label.key}=${label.value}`,
        placement,
        ...counts,
        gain: gain.toSorted(),
        lose: lose.toSorted(),
        ...(releaseDelayMs > 0 && { delayMs: releaseDelayMs }),
        ...(agent && { agent: toForecast(agent, this.#waits(footprint, counts.unknown)) }),
      };
    });
  }

  /** Why the node selector is left as it is for now. */
  #waits({ rule, agent }: Footprint, unknown: number): string | undefined {
    const other = this.#counts.find(
      ({ footprint }) =>
        footprint.rule !== rule &&
        footprint.agent?.nodeSelector === "Manage" &&
        isSameDaemonSet(footprint.agent, agent),
    );
    if (other !== undefined) return `${other.footprint.rule} wants to manage its node selector as well`;
    if (unknown === 0) return undefined;
    return `it is not known of ${unknown} ${unknown === 1 ? "node" : "nodes"} whether it is needed there`;
  }
}

function isSameDaemonSet(a: Footprint["agent"], b: Footprint["agent"]): boolean {
  return a?.namespace === b?.namespace && a?.name === b?.name;
}

interface Agent {
  readonly selector?: SelectorCount;
  readonly footprint: Footprint & { readonly agent: NonNullable<Footprint["agent"]> };
  /** `null`: there is none. */
  readonly daemonSet: DaemonSet | null;
  readonly unserved: UnservedNode[];
  readonly spared: string[];
  landing?: AgentLanding;
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
  if (agent === undefined) return {};
  const daemonSet = sight.daemonSet(agent.namespace, agent.name);
  if (daemonSet === undefined) return {};
  const selector = selectorCount(footprint, daemonSet);
  return {
    agent: {
      footprint: { ...footprint, agent },
      daemonSet,
      unserved: [],
      spared: [],
      ...(selector && { selector }),
    },
  };
}

interface Seen {
  readonly node: Node;
  readonly name: string;
  readonly isNeeded: boolean;
  /** It does not run there, and it is known that it need not. */
  readonly isSpared: boolean;
}

function look(agent: Agent, { node, name, isNeeded, isSpared }: Seen): void {
  const problem = agentProblemOn(agent.footprint, agent.daemonSet, node);
  if (problem === undefined) {
    if (isSpared) agent.spared.push(name);
    // Of a DaemonSet that is not there it is enough to say so once.
  } else if (isNeeded && agent.daemonSet !== null && isAgentChecked(agent.footprint))
    agent.unserved.push({ node: name, ...problem });
}

function toForecast(
  { footprint, daemonSet, unserved, spared, selector, landing }: Agent,
  waits: string | undefined,
): AgentForecast {
  const spec = daemonSet?.spec?.template.spec;
  return {
    daemonSet: `${footprint.agent.namespace}/${footprint.agent.name}`,
    follows: staysAway(spec, footprint),
    problems: isAgentChecked(footprint) ? agentProblems(footprint, daemonSet, () => landing) : [],
    unserved: unserved.toSorted((a, b) => (a.node < b.node ? -1 : 1)),
    requests: requestsOf(spec, 1),
    saved: { nodes: spared.length, names: spared.toSorted(), requests: requestsOf(spec, spared.length) },
    ...(selector && { selector: selector.forecast(waits) }),
  };
}
