/** What looks after the agents of footprints, put together: where they run, and that their DaemonSets follow. */

import { createKeySource } from "@berth/host";
import { type DaemonSet, daemonSets as daemonSetResource, type KubeClient, type Node } from "@berth/kube";
import {
  type AgentLanding,
  type AgentVerdict,
  checkAgent,
  createAgentReconciler,
  type DaemonSetWatch,
  type Footprint,
  type FootprintProgress,
  type Footprints,
  isAgentChecked,
  isObserved,
  landingOn,
  ManageProblems,
  managedAgents,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  createController,
  type EventRecorder,
  type Informer,
  isSameData,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
} from "@berth/runtime";
import { FootprintAgents } from "./agents.ts";
import type { NodeCounts } from "./counts.ts";
import { followTaints } from "./nodes.ts";

export interface AgentPartsOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly nodes: Informer<Node>;
  readonly daemonSets: DaemonSetWatch;
  readonly counts: NodeCounts;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** Something else is to be said of this footprint, or of any. Must not throw. */
  readonly onChange: (rule?: string) => void;
  /** Some agent asks for another label than before: nodes keep one that is still asked for. Must not throw. */
  readonly onAsked: () => void;
}

export interface AgentParts {
  /** The footprints in force from now on. */
  want(footprints: Footprints): void;
  /** The counts of footprints have changed: a DaemonSet may follow by now. */
  ask(): void;
  /** DaemonSets have become known, or their pods belong elsewhere. */
  daemonSetsChanged(): void;
  /** There is another version of a DaemonSet, or it is gone. */
  daemonSetChanged(key: ObjectKey): void;
  /** Why the DaemonSet cannot be managed. */
  problem(footprint: Footprint): string | undefined;
  progress(footprint: Footprint): Pick<FootprintProgress, "agent" | "agentReady">;
  /** Pods of the agents. Every replica runs it. */
  readonly watch: Component;
  /** What the leader runs. */
  readonly components: readonly Component[];
}

export function createAgentParts(options: AgentPartsOptions): AgentParts {
  const { client, cluster, daemonSets, counts, onChange, onAsked, nodes, events, ...common } = options;
  let inForce: Footprints | undefined;
  let asked: readonly unknown[] = [];
  const managed = (): readonly ObjectKey[] => managedAgents(inForce?.footprints ?? [], cluster);
  const pods = new FootprintAgents({
    ...common,
    client,
    cluster,
    daemonSet: (namespace, name) => daemonSets.daemonSet(namespace, name),
    onChange: () => onChange(),
  });
  const problems = new ManageProblems({ onChange });
  const source = createKeySource(managed);
  const controller = createController({
    ...common,
    name: "footprint-daemonsets",
    reconcile: createAgentReconciler({
      daemonSets,
      // Nothing follows while a source is still to be read.
      footprints: () => (inForce?.policy.isUndecided !== true ? inForce?.footprints : undefined),
      counts({ rule }) {
        const found = counts.of(rule);
        return found?.unknown === 0 ? found : undefined;
      },
      patch: (namespace, name, body, signal) =>
        client.patch(daemonSetResource, { namespace, name }, { type: "json", body }, { signal }),
      problems,
      events,
      clock: common.clock,
    }),
    sources: [source],
  });
  const noteAsked = (): void => {
    const before = asked;
    asked = (inForce?.footprints ?? []).map((footprint) => askedBy(footprint, daemonSets));
    if (!isSameData(before, asked)) onAsked();
  };
  return {
    want(footprints) {
      inForce = footprints;
      pods.want(footprints.footprints);
      problems.keep(footprints.footprints);
      source.ask(managed());
    },
    ask: () => source.ask(managed()),
    daemonSetsChanged() {
      const footprints = inForce?.footprints ?? [];
      pods.want(footprints);
      onChange();
      source.ask(managed());
      noteAsked();
    },
    daemonSetChanged(key) {
      noteAsked();
      const isManaged = managed().some(
        ({ namespace, name }) => namespace === key.namespace && name === key.name,
      );
      if (isManaged) source.ask([key], "high");
    },
    problem: (footprint) => problems.of(footprint)?.message,
    progress: (footprint) => progressOf(footprint, { cluster, nodes, daemonSets, counts, pods, problems }),
    watch: pods,
    components: [followTaints(nodes, () => onChange()), controller],
  };
}

/** By its node selector, and whether that is in force; nothing while its DaemonSet is not known. */
function askedBy({ agent }: Footprint, daemonSets: DaemonSetWatch): unknown {
  const daemonSet = agent && daemonSets.daemonSet(agent.namespace, agent.name);
  return daemonSet ? [daemonSet.spec?.template.spec?.nodeSelector ?? null, isObserved(daemonSet)] : null;
}

interface AgentSight extends Pick<AgentPartsOptions, "cluster" | "nodes" | "daemonSets" | "counts"> {
  readonly pods: FootprintAgents;
  readonly problems: ManageProblems;
}

function progressOf(
  footprint: Footprint,
  sight: AgentSight,
): Pick<FootprintProgress, "agent" | "agentReady"> {
  const { tally, done } = sight.counts;
  if (!done || !isAgentChecked(footprint)) return { agent: undefined, agentReady: undefined };
  const names = [...tally.nodes(footprint.rule, "Needed"), ...tally.nodes(footprint.rule, "Pending")];
  return { agent: verdictOf(footprint, names, sight), agentReady: sight.pods.readyOn(footprint, names) };
}

function verdictOf(
  footprint: Footprint,
  needing: readonly string[],
  sight: AgentSight,
): AgentVerdict | undefined {
  const { agent } = footprint;
  const daemonSet = agent && sight.daemonSets.daemonSet(agent.namespace, agent.name);
  if (agent === undefined || daemonSet === undefined) return undefined;
  const nodes = needing
    .toSorted()
    .flatMap((name) => sight.nodes.get(keyOf(sight.cluster, { metadata: { name } })) ?? []);
  const { unserved, problems } = checkAgent({ ...footprint, agent }, daemonSet, nodes, () =>
    landingOf(footprint.rule, daemonSet, sight),
  );
  // Why it cannot be managed is why what is wrong with it stays so.
  const unmanaged = sight.problems.of(footprint);
  return { unserved, problems: unmanaged === undefined ? problems : [unmanaged, ...problems] };
}

/** Idle nodes without a mark are not remembered. */
function landingOf(
  rule: string,
  daemonSet: DaemonSet | null,
  { nodes, counts: { tally } }: AgentSight,
): AgentLanding | undefined {
  const phases = ["Needed", "Pending", "Unknown", "Excluded"] as const;
  const others = new Set(phases.flatMap((phase) => tally.nodes(rule, phase)));
  let landing: AgentLanding | undefined;
  for (const node of nodes.list()) {
    const isIdle = !others.has(node.metadata?.name ?? "");
    landing = landingOn(landing, daemonSet, { node, isIdle });
    if (landing.needless !== undefined) break;
  }
  return landing;
}
