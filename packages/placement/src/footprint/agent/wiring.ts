/** Wires the agent code of footprints: the checks where agents can run, and the controller of their DaemonSets. */
import { createKeySource, createObjectController } from "@berth/host";
import { type Component, keyOf, type ObjectKey } from "@berth/runtime";
import type { NodeCounts } from "../../node/pass.ts";
import type { NodeHost } from "../../node/wired.ts";
import { type FootprintProgress } from "../conditions.ts";
import { type Footprint, type Footprints } from "../footprint.ts";
import { followTaints } from "../lost-nodes.ts";
import type { FootprintViews } from "../reads.ts";
import { type FootprintCounts, type FootprintTally } from "../tally.ts";
import { checkAgent, isAgentChecked } from "./check.ts";
import { ManageProblems } from "./manage-problems.ts";
import { agentRules, managedAgents } from "./manager.ts";

type Parts = "client" | "cluster" | "nodes" | "events" | "metrics" | "log" | "clock";

export interface AgentDeps extends Pick<NodeHost, Parts> {
  readonly daemonSets: FootprintViews["daemonSets"];
  readonly tally: Pick<FootprintTally, "nodes">;
  readonly counts: Pick<NodeCounts<FootprintCounts>, "of">;
  /** The status of this footprint may have changed; without a rule, that of any footprint. Must not throw. */
  readonly onChange: (rule?: string) => void;
}

export interface WiredAgents {
  want(footprints: Footprints): void;
  /** Checks the managed DaemonSets again. Call it when counts of footprints or the nodes of a DaemonSet change. */
  ask(): void;
  /** Call it for each new version of a DaemonSet, and for its deletion. */
  daemonSetChanged(key: ObjectKey): void;
  /** Why the DaemonSet cannot be managed. */
  problem(footprint: Footprint): string | undefined;
  progress(footprint: Footprint): Pick<FootprintProgress, "agent" | "agentReady">;
  readonly components: readonly Component[];
}

export function wireAgents(options: AgentDeps): WiredAgents {
  const { client, cluster, daemonSets, tally, counts, onChange, nodes, events, ...common } = options;
  let inForce: Footprints | undefined;
  const managed = (): readonly ObjectKey[] => managedAgents(inForce?.footprints ?? [], cluster);
  const problems = new ManageProblems({ onChange });
  const source = createKeySource(managed);
  const controller = createObjectController({
    ...common,
    ...agentRules({
      // Berth changes no DaemonSet until it has read every source.
      footprints: () => (inForce?.policy.isUndecided !== true ? inForce?.footprints : undefined),
      counts({ rule }) {
        const found = counts.of(rule);
        return found?.unknown === 0 ? found : undefined;
      },
      problems,
      clock: common.clock,
    }),
    name: "footprint-daemonsets",
    client,
    events,
    objects: daemonSets,
    sources: [source],
  });
  return {
    want(footprints) {
      inForce = footprints;
      problems.keep(footprints.footprints);
      source.ask(managed());
    },
    ask: () => source.ask(managed()),
    daemonSetChanged(key) {
      const isIt = (it: { readonly namespace: string; readonly name: string } | undefined): boolean =>
        it?.namespace === key.namespace && it.name === key.name;
      for (const { rule, agent } of inForce?.footprints ?? []) if (isIt(agent)) onChange(rule);
      if (managed().some(isIt)) source.ask([key], "high");
    },
    problem: (footprint) => problems.of(footprint)?.message,
    progress(footprint) {
      const { rule, agent } = footprint;
      const counted = counts.of(rule);
      const daemonSet = agent && daemonSets.find(agent.name, agent.namespace);
      if (counted === undefined || agent === undefined || daemonSet === undefined) return nothingKnown;
      if (!isAgentChecked(footprint)) return nothingKnown;
      const needing = [...tally.nodes(rule, "Needed"), ...tally.nodes(rule, "Pending")]
        .sort()
        .flatMap((name) => nodes.get(keyOf(cluster, { metadata: { name } })) ?? []);
      const verdict = checkAgent({ ...footprint, agent }, daemonSet, needing);
      // This problem comes first: it stops Berth from fixing the others.
      const unmanaged = problems.of(footprint);
      return {
        agent: unmanaged ? { ...verdict, problems: [unmanaged, ...verdict.problems] } : verdict,
        agentReady: Math.min(daemonSet?.status?.numberReady ?? 0, counted.needed),
      };
    },
    components: [followTaints(nodes, () => onChange()), controller],
  };
}

const nothingKnown = { agent: undefined, agentReady: undefined } as const;
