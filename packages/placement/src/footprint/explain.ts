/** What each footprint means for one node or one pod, for `explain`. Plain data. */
import { type Node, type Pod, pathOf } from "@berth/kube";
import { type RuleOutcome } from "../node/capability.ts";
import { labelId, standingValue } from "../node/mark.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { agentProblemOn, isAgentChecked } from "./agent/check.ts";
import { type FootprintPhase } from "./capability.ts";
import { type Footprint, type Footprints } from "./footprint.ts";
import { type FootprintObservations } from "./footprint-observations.ts";
import { claimKey } from "./groups.ts";
import { podNeeds } from "./needs.ts";
import { type PodUse, podUses } from "./use.ts";

interface PodExplanation {
  /** The group of the pod; absent when the pod does not count, or pods are not grouped. */
  readonly group?: string;
  readonly why?: string;
}

/** What a node carries for a footprint. */
export interface FootprintStanding {
  readonly phase: FootprintPhase;
  /** The label of nodes that need the agent, such as `ate.dev/atelet=true`. */
  readonly label: string;
  /** The value of the label on the node; absent when the node lacks it. */
  readonly standing?: string;
}

export interface FootprintExplanation extends FootprintStanding {
  /** `cluster/atelet`. */
  readonly footprint: string;
  /** `namespace/name` of pods that a workload selects or may select; `undefined` when Berth cannot read pods. */
  readonly pods: readonly (PodExplanation & Pick<PodUse, "is"> & { readonly pod: string })[] | undefined;
  /** Sorted by annotation key, each with the pods behind it. */
  readonly claims: readonly {
    readonly key: string;
    readonly stands: boolean;
    readonly pods: readonly string[];
  }[];
  /** `daemonSet` is `namespace/name`; `problem` says why it cannot run here. */
  readonly agent?: { readonly daemonSet: string; readonly problem?: string };
}

export interface ExplanationAround {
  readonly observations: FootprintObservations;
  readonly installation: string;
  /** The outcomes of the footprint decision on the node. */
  readonly outcomes: readonly RuleOutcome[];
}

export function explainFootprints(
  node: Node,
  { footprints }: Pick<Footprints, "footprints">,
  { observations, installation, outcomes }: ExplanationAround,
): readonly FootprintExplanation[] {
  const owned = ownedMarks(recordOf(node), installation);
  return footprints.map((footprint) => {
    const { rule, claims, agent } = footprint;
    const uses = podUses(footprint, { node, owned }, observations);
    const pods = uses?.map(toPod).sort((a, b) => (a.pod < b.pod ? -1 : 1));
    return {
      footprint: rule,
      ...standingOf(footprint, node, outcomes),
      pods,
      claims: claims === undefined ? [] : claimsOf(node, claims.annotationPrefix, pods ?? []),
      ...(agent && { agent: agentOn(node, { ...footprint, agent }, observations) }),
    };
  });
}

function standingOf(
  { rule, label }: Footprint,
  node: Node,
  outcomes: readonly RuleOutcome[],
): FootprintStanding {
  const outcome = outcomes.find((it) => it.rule === rule && it.phase !== "Foreign");
  const standing = standingValue(node, labelId(label.key));
  return {
    phase: (outcome?.phase ?? "Unknown") as FootprintPhase,
    label: `${label.key}=${label.value}`,
    ...(standing !== undefined && { standing }),
  };
}

function toPod({ pod, is, group, why }: PodUse): NonNullable<FootprintExplanation["pods"]>[number] {
  return { pod: pathOf(pod.metadata), is, ...(group && { group }), ...(why !== undefined && { why }) };
}

/** Claims that pods need, and other claims that are on the node. */
function claimsOf(
  { metadata }: Node,
  prefix: string,
  pods: NonNullable<FootprintExplanation["pods"]>,
): FootprintExplanation["claims"] {
  const { annotations = {} } = metadata ?? {};
  const standing = Object.keys(annotations).filter((key) => key.startsWith(prefix));
  const byKey = new Map<string, string[]>(standing.map((key) => [key, []]));
  for (const { pod, is, group } of pods) {
    if ((is !== "Counts" && is !== "Ownerless") || group === undefined) continue;
    const key = claimKey(prefix, group);
    byKey.set(key, [...(byKey.get(key) ?? []), pod]);
  }
  return [...byKey]
    .map(([key, by]) => ({ key, stands: Object.hasOwn(annotations, key), pods: by }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

function agentOn(
  node: Node,
  footprint: Parameters<typeof agentProblemOn>[0],
  observations: FootprintObservations,
): NonNullable<FootprintExplanation["agent"]> {
  const { namespace, name } = footprint.agent;
  const daemonSet = isAgentChecked(footprint) ? observations.daemonSet(namespace, name) : undefined;
  const problem = daemonSet === undefined ? undefined : agentProblemOn(footprint, daemonSet, node);
  return { daemonSet: `${namespace}/${name}`, ...(problem && { problem: problem.message }) };
}

export interface FootprintOfPod extends PodExplanation {
  readonly footprint: string;
  /** `Ignored`: it does not need the agent. */
  readonly is: PodUse["is"] | "Ignored";
  /** Absent while the pod has no node, or its node does not exist. */
  readonly node?: FootprintStanding & { readonly name: string };
}

/** @param around with the outcomes on the pod's node. `node`: `undefined` if the pod has no existing node. */
export function explainPodFootprints(
  pod: Pod,
  { footprints }: Pick<Footprints, "footprints">,
  { node, observations, installation, outcomes }: ExplanationAround & { readonly node: Node | undefined },
): readonly FootprintOfPod[] {
  const owned = ownedMarks(node === undefined ? { state: "absent" } : recordOf(node), installation);
  const { uid } = pod.metadata ?? {};
  return footprints.map((footprint): FootprintOfPod => {
    // Include the other pods of the node: a mark that one of them accounts for says nothing about this pod.
    const beside = (observations.pods(footprint, node?.metadata?.name ?? "") ?? []).filter(
      ({ metadata }) => metadata?.uid !== uid,
    );
    const together: FootprintObservations = { ...observations, pods: () => [pod, ...beside] };
    const use = podUses(footprint, { node: node ?? {}, owned }, together)?.find((one) => one.pod === pod);
    const { is, group, why } = use ?? {
      is: "Ignored" as const,
      why: whyIgnored(pod, footprint, observations),
    };
    return {
      footprint: footprint.rule,
      is,
      ...(group && { group }),
      ...(why !== undefined && { why }),
      ...(node && {
        node: { name: node.metadata?.name ?? "", ...standingOf(footprint, node, outcomes) },
      }),
    };
  });
}

function whyIgnored(pod: Pod, footprint: Footprint, observations: FootprintObservations): string {
  if (podNeeds(pod, footprint, observations) !== "no") {
    const { grouping } = footprint;
    return grouping.by === "PodLabel"
      ? `it does not have the label ${grouping.label}, by which pods are grouped`
      : "it is of no group";
  }
  const { deletionTimestamp: _, ...metadata } = pod.metadata ?? {};
  const alive: Pod = { ...pod, metadata, status: { phase: "Running" } };
  return podNeeds(alive, footprint, observations) === "no"
    ? "no workload takes it"
    : "it is finished, or ends";
}
