/** Where one node, or one pod, stands with each footprint, for `explain`. Plain data. */
import type { Node, Pod } from "@berth/kube";
import {
  agentProblemOn,
  claimKey,
  type Footprint,
  type FootprintPhase,
  type FootprintSight,
  type Footprints,
  groupOf,
  IDLE_VALUE,
  idleFrom,
  isAgentChecked,
  labelId,
  ownedMarks,
  type PodUse,
  podNeeds,
  podUses,
  type RuleOutcome,
  recordOf,
  standingValue,
} from "@berth/placement";

/** One pod of the node that a workload takes, or may take. */
export interface PodExplanationForFootprint {
  /** `namespace/name`. */
  readonly pod: string;
  readonly is: "Counts" | "Unknown" | "Ownerless" | "Refused";
  /** Whose need it is; absent where pods are not grouped. */
  readonly group?: string;
  readonly why?: string;
}

export interface ClaimExplanation {
  /** Of the annotation. */
  readonly key: string;
  readonly group: string;
  readonly stands: boolean;
  /** Nobody is known to need it, and it is not known that nobody does: it stays. */
  readonly kept: boolean;
  /** The pods that it stands for. */
  readonly pods: readonly string[];
}

export interface FootprintExplanation {
  /** `cluster/atelet`. */
  readonly footprint: string;
  readonly phase: FootprintPhase;
  /** `ate.dev/atelet=true`: as it is where the agent is needed. */
  readonly label: string;
  /** What stands; absent for nothing. */
  readonly standing?: string;
  /** Nobody needs the agent, which with `Eager` runs here all the same until the label says so. */
  readonly lingers?: {
    /** RFC 3339; absent: with the next write, or after a delay of which only a running Berth knows when it began. */
    readonly until?: string;
  };
  /** `undefined` while pods could not be read. In order of name. */
  readonly pods: readonly PodExplanationForFootprint[] | undefined;
  readonly claims: readonly ClaimExplanation[];
  /** `namespace/name`, and why it cannot run here. */
  readonly agent?: { readonly daemonSet: string; readonly problem?: string };
}

/** Those that exclude the node as well. @param outcomes what the footprints said of it. */
export function explainFootprints(
  node: Node,
  { footprints }: Pick<Footprints, "footprints">,
  around: {
    readonly sight: FootprintSight;
    readonly installation: string;
    readonly outcomes: readonly RuleOutcome[];
  },
): readonly FootprintExplanation[] {
  return footprints.map((footprint) => explainOne(node, footprint, around));
}

function explainOne(
  node: Node,
  footprint: Footprint,
  { sight, installation, outcomes }: Parameters<typeof explainFootprints>[2],
): FootprintExplanation {
  const { rule, label, claims, agent } = footprint;
  const outcome = outcomes.find((it) => it.rule === rule && it.phase !== "Foreign");
  const owned = ownedMarks(recordOf(node), installation);
  const uses = podUses(footprint, { node, owned }, sight);
  const pods = uses?.map(toPodExplanation).sort((a, b) => (a.pod < b.pod ? -1 : 1));
  const standing = standingValue(node, labelId(label.key));
  return {
    footprint: rule,
    phase: (outcome?.phase ?? "Unknown") as FootprintPhase,
    label: `${label.key}=${label.value}`,
    ...(standing !== undefined && { standing }),
    ...(outcome?.phase === "Idle" && lingering(node, footprint, standing)),
    pods,
    claims: claims === undefined ? [] : claimsOf(node, claims.annotationPrefix, pods),
    ...(agent && { agent: agentOn(node, { ...footprint, agent }, sight) }),
  };
}

function lingering(
  node: Node,
  footprint: Footprint,
  standing: string | undefined,
): Pick<FootprintExplanation, "lingers"> {
  if (footprint.placement === "Lazy" || standing === IDLE_VALUE) return {};
  const from = idleFrom(node, footprint);
  // Of a node that is new; a label that stands for a need that is over goes by a clock of the running Berth.
  if (standing !== undefined || footprint.releaseDelayMs === 0 || !Number.isFinite(from))
    return { lingers: {} };
  return { lingers: { until: new Date(from).toISOString() } };
}

function toPodExplanation({ pod, is, group, why }: PodUse): PodExplanationForFootprint {
  const { namespace = "", name = "" } = pod.metadata ?? {};
  return { pod: `${namespace}/${name}`, is, ...(group && { group }), ...(why !== undefined && { why }) };
}

/** Those that are wanted, and those that stand all the same. */
function claimsOf(
  { metadata }: Node,
  prefix: string,
  pods: readonly PodExplanationForFootprint[] | undefined,
): readonly ClaimExplanation[] {
  const { annotations = {} } = metadata ?? {};
  const isOpen = pods === undefined || pods.some(isOfAny);
  const byKey = new Map<string, { group: string; pods: string[] }>();
  for (const key of Object.keys(annotations))
    if (key.startsWith(prefix)) byKey.set(key, { group: key.slice(prefix.length), pods: [] });
  for (const { pod, is, group } of pods ?? []) {
    if ((is !== "Counts" && is !== "Ownerless") || group === undefined) continue;
    const key = claimKey(prefix, group);
    const claim = byKey.get(key) ?? { group, pods: [] };
    claim.group = group;
    claim.pods.push(pod);
    byKey.set(key, claim);
  }
  const claims = [...byKey].map(([key, { group, pods: by }]): ClaimExplanation => {
    const stands = Object.hasOwn(annotations, key);
    return { key, group, stands, kept: isOpen && by.length === 0, pods: by };
  });
  return claims.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Without its owner it is not known whose it was. */
function isOfAny({ is, group }: PodExplanationForFootprint): boolean {
  return is === "Unknown" || (is === "Ownerless" && group === undefined);
}

function agentOn(
  node: Node,
  footprint: Parameters<typeof agentProblemOn>[0],
  sight: FootprintSight,
): NonNullable<FootprintExplanation["agent"]> {
  const { namespace, name } = footprint.agent;
  const daemonSet = sight.daemonSet(namespace, name);
  const problem =
    daemonSet === undefined || !isAgentChecked(footprint)
      ? undefined
      : agentProblemOn(footprint, daemonSet, node);
  return {
    daemonSet: `${namespace}/${name}`,
    ...(problem !== undefined && { problem: problem.message }),
  };
}

/** What one pod means for one footprint. */
export interface FootprintOfPod {
  readonly footprint: string;
  /** `Ignored`: it does not need the agent. */
  readonly is: PodUse["is"] | "Ignored";
  /** Whose need it is; absent where it does not count, or pods are not grouped. */
  readonly group?: string;
  readonly why?: string;
  /** Absent while it has no node, or its node is not there. */
  readonly node?: {
    readonly name: string;
    readonly phase: FootprintPhase;
    readonly label: string;
    /** What stands; absent for nothing. */
    readonly standing?: string;
  };
}

export interface PodAround {
  /** `undefined`: it has none, or that is not there. */
  readonly node: Node | undefined;
  readonly sight: FootprintSight;
  readonly installation: string;
  readonly outcomes: readonly RuleOutcome[];
}

/** @param around with what the footprints said of its node. */
export function explainPodFootprints(
  pod: Pod,
  { footprints }: Pick<Footprints, "footprints">,
  around: PodAround,
): readonly FootprintOfPod[] {
  const { node, sight, installation } = around;
  const owned = ownedMarks(node === undefined ? { state: "absent" } : recordOf(node), installation);
  const { uid } = pod.metadata ?? {};
  // What stands for other pods does not stand for this one.
  const beside = (footprint: Footprint): readonly Pod[] =>
    (sight.pods(footprint, node?.metadata?.name ?? "") ?? []).filter(({ metadata }) => metadata?.uid !== uid);
  return footprints.map((footprint): FootprintOfPod => {
    const together: FootprintSight = { ...sight, pods: () => [pod, ...beside(footprint)] };
    const uses = podUses(footprint, { node: node ?? {}, owned }, together) ?? [];
    const use = uses.find((one) => one.pod === pod);
    const said = use === undefined ? { is: "Ignored" as const, why: whyIgnored(pod, footprint, sight) } : use;
    const { is, why } = said;
    const group = "group" in said ? said.group : undefined;
    const its = node && explainOne(node, footprint, { ...around, sight });
    return {
      footprint: footprint.rule,
      is,
      ...(group && { group }),
      ...(why !== undefined && { why }),
      ...(its && {
        node: {
          name: node.metadata?.name ?? "",
          phase: its.phase,
          label: its.label,
          ...(its.standing !== undefined && { standing: its.standing }),
        },
      }),
    };
  });
}

function whyIgnored(pod: Pod, footprint: Footprint, sight: FootprintSight): string {
  const { deletionTimestamp: _, ...metadata } = pod.metadata ?? {};
  const alive: Pod = { ...pod, metadata, status: { phase: "Running" } };
  const needs = podNeeds(alive, footprint, sight);
  if (needs === "no") return "no workload takes it";
  if (podNeeds(pod, footprint, sight) === "no") return "it is finished, or ends";
  const { grouping } = footprint;
  return grouping.by === "PodLabel" && groupOf(pod, footprint, sight).is === "none"
    ? `it does not have the label ${grouping.label}, by which pods are grouped`
    : "it is of no group";
}
