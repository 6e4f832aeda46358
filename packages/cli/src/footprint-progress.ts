/** How far each footprint is, put together from all that is counted, watched and refused: for its conditions. */
import {
  type DaemonSet,
  deployments as deploymentResource,
  type KubeClient,
  type Node,
  nameOfResource,
} from "@berth/kube";
import {
  type AgentLanding,
  type AgentVerdict,
  checkAgent,
  type DaemonSetWatch,
  type FirstPass,
  type Footprint,
  type FootprintCounts,
  type FootprintJudgement,
  type FootprintProgress,
  type FootprintTally,
  type FootprintWatches,
  type HeldOwners,
  type HoldWatches,
  isAgentChecked,
  landingOn,
  type ManageProblems,
  reasons,
  resourceName,
  SETTLING_MS,
  type WaitWatch,
} from "@berth/placement";
import { type ClusterName, type Informer, keyOf } from "@berth/runtime";
import type { FootprintAgents } from "./footprint-agents.ts";
import { MissingRights } from "./missing-rights.ts";

export interface FootprintProgressOptions {
  readonly cluster: ClusterName;
  readonly nodes: Pick<Informer<Node>, "get" | "list">;
  readonly daemonSets: Pick<DaemonSetWatch, "daemonSet">;
  readonly inForce: () => readonly Footprint[];
  /** Of the footprints in force. */
  readonly pass: () => Pick<FirstPass, "done">;
  readonly tally: FootprintTally;
  readonly watches: () => Pick<FootprintWatches, "whyUnread">;
  readonly agents: () => Pick<FootprintAgents, "readyOn">;
  readonly holdWatches: () => Pick<HoldWatches, "whyUnread" | "sightOf">;
  readonly waitWatch: () => Pick<WaitWatch, "problem">;
  readonly held: () => Pick<HeldOwners, "of">;
  readonly manageProblems: () => Pick<ManageProblems, "of">;
  /** Whether the API server asks about new pods that are to wait. */
  readonly admission: () => FootprintJudgement | undefined;
}

export interface FootprintProgresses {
  /** `undefined` while it is not in force. */
  of(rule: string): FootprintProgress | undefined;
  /** `undefined` until each node was looked at by the footprints in force. */
  countsOf(rule: string): FootprintCounts | undefined;
  /** What else than counts has come to be said of a footprint: the same text, the same conditions. */
  hindrances(footprint: Footprint): string;
  /** Footprints in force that lack something, most of them a right. */
  readonly hindered: number;
  /** Clients whose refusals are told of: for what holds owners, and for what has pods of Deployments wait. */
  readonly holding: Pick<KubeClient, "get" | "patch" | "delete">;
  readonly applying: Pick<KubeClient, "apply">;
}

export function createFootprintProgresses(
  client: Pick<KubeClient, "get" | "patch" | "apply" | "delete">,
  options: FootprintProgressOptions,
): FootprintProgresses {
  const { cluster, nodes, daemonSets, inForce, pass, tally } = options;
  const holdRights = new MissingRights();
  const waitRights = new MissingRights();
  const countsOf = (rule: string): FootprintCounts | undefined =>
    pass().done ? tally.counts(rule) : undefined;
  const holdProblemOf = ({ hold }: Footprint): string | undefined => {
    if (hold === undefined) return undefined;
    const resources = [hold.resource, ...hold.ownedResources].map(resourceName);
    return options.holdWatches().whyUnread(hold) ?? holdRights.why(resources);
  };
  const waitProblemOf = ({ wait }: Footprint): string | undefined =>
    wait?.inject === "ServerSideApply"
      ? (options.waitWatch().problem() ?? waitRights.why([nameOfResource(deploymentResource)]))
      : undefined;
  const waitOf = (footprint: Footprint): FootprintJudgement | undefined => {
    if (footprint.wait?.inject === "Webhook") return options.admission();
    const why = waitProblemOf(footprint);
    return why === undefined
      ? { ready: true, reason: reasons.AgentWaitSet, message: "pods of Deployments wait by their templates" }
      : { ready: false, reason: reasons.FootprintHindered, message: `Deployments stay as they are: ${why}` };
  };
  const problemsOf = (footprint: Footprint): readonly (string | undefined)[] => [
    options.watches().whyUnread(footprint),
    holdProblemOf(footprint),
    waitProblemOf(footprint),
    options.manageProblems().of(footprint)?.message,
  ];
  const nodesOf = (names: readonly string[]): readonly Node[] =>
    names.toSorted().flatMap((name) => nodes.get(keyOf(cluster, { metadata: { name } })) ?? []);
  /** Idle nodes without a mark are not remembered. */
  const landingOf = (rule: string, daemonSet: DaemonSet | null): AgentLanding | undefined => {
    const phases = ["Needed", "Pending", "Unknown", "Excluded"] as const;
    const others = new Set(phases.flatMap((phase) => tally.nodes(rule, phase)));
    let landing: AgentLanding | undefined;
    for (const node of nodes.list()) {
      const isIdle = !others.has(node.metadata?.name ?? "");
      landing = landingOn(landing, daemonSet, { node, isIdle });
      if (landing.needless !== undefined) break;
    }
    return landing;
  };
  const verdictOf = (footprint: Footprint, needing: readonly string[]): AgentVerdict | undefined => {
    const { rule, agent } = footprint;
    const daemonSet = agent && daemonSets.daemonSet(agent.namespace, agent.name);
    if (agent === undefined || daemonSet === undefined) return undefined;
    const { unserved, problems } = checkAgent({ ...footprint, agent }, daemonSet, nodesOf(needing), () =>
      landingOf(rule, daemonSet),
    );
    // Why it cannot be managed is why what is wrong with it stays so.
    const unmanaged = options.manageProblems().of(footprint);
    return { unserved, problems: unmanaged === undefined ? problems : [unmanaged, ...problems] };
  };
  return {
    countsOf,
    of(rule) {
      const footprint = inForce().find((it) => it.rule === rule);
      if (footprint === undefined) return undefined;
      const { hold } = footprint;
      const names = [...tally.nodes(rule, "Needed"), ...tally.nodes(rule, "Pending")];
      const isKnown = pass().done && isAgentChecked(footprint);
      return {
        footprint,
        counts: countsOf(rule),
        unknownMs: tally.unknownMs(rule),
        unread: options.watches().whyUnread(footprint),
        agent: isKnown ? verdictOf(footprint, names) : undefined,
        agentReady: isKnown ? options.agents().readyOn(footprint, names) : undefined,
        held: options.held().of(rule),
        ...(hold && { owners: options.holdWatches().sightOf(hold.resource) }),
        holdProblem: holdProblemOf(footprint),
        wait: waitOf(footprint),
      };
    },
    hindrances(footprint) {
      const { rule, hold } = footprint;
      const isLong = tally.unknownMs(rule) >= SETTLING_MS;
      const owners = hold && options.holdWatches().sightOf(hold.resource);
      return JSON.stringify([...problemsOf(footprint).map((it) => it ?? ""), isLong, owners]);
    },
    get hindered() {
      return inForce().filter((it) => problemsOf(it).some((problem) => problem !== undefined)).length;
    },
    holding: holdRights.listenTo(client),
    applying: waitRights.listenTo(client),
  };
}
