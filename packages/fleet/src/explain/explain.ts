/**
 * Explains a Workload or an Instance: the one thing that blocks it, and a tree from the Workload to its pods, or to its
 * cells. Pure.
 */
import { formatAge } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { findCondition, fromTime } from "@berth/runtime";
import { claimName, gates } from "../api/keys.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { desiredCount } from "../deployment/build.ts";
import { decideInstance } from "../instance/decide.ts";
import { gatesOf, hasGate } from "../instance/tiers.ts";
import type { NetworkSeen, ProviderSeen, QuotaSeen } from "../instance/view.ts";
import { adviceFor } from "./advice.ts";
import { aboutOf, type Block, blocksOf, instanceBlock, isReady, staleBlocks, worstBlock } from "./blocks.ts";
import {
  deploymentDecision,
  deploymentOf,
  deploymentsOf,
  type FleetFacts,
  instancesOf,
  instanceView,
  networkDecision,
  type Unread,
  workloadDecision,
} from "./facts.ts";
import { actionText, type Next, nextOfDeployment, nextOfInstance } from "./next.ts";
import { cellText, isCarried, placingOf } from "./planes.ts";

/** One object of the tree, or what stands for one. */
export interface TreeNode {
  readonly kind: string;
  readonly name: string;
  /** `ready`, `2/3 ready`, `Pending` */
  readonly state: string;
  /** Why, or where. May be empty. */
  readonly detail: string;
  readonly children: readonly TreeNode[];
}

export interface FleetExplanation {
  /** `Workload default/web` */
  readonly about: string;
  /** What a person should look at first. Absent: nothing blocks it. */
  readonly blocking?: Omit<Block, "rank">;
  /** What would change that. */
  readonly advice?: string;
  readonly next: Next;
  /** RFC 3339: a cell was heard last then, and what it has now is not known. Absent: all of them are heard. */
  readonly since?: string;
  /** Sources that were not read. What depends on them is left out. */
  readonly unread: readonly Unread[];
  readonly tree: TreeNode;
}

export function explainWorkload(workload: Workload, facts: FleetFacts): FleetExplanation {
  const decision = workloadDecision(workload, facts);
  const deployments = deploymentsOf(workload, facts);
  const looks = deployments.map((it) => deploymentDecision(it, facts));
  const instances = deployments.flatMap((it) => instancesOf(it, facts));
  const findings = [
    ...looks.flatMap((look, at) => findingBlocks("WorkloadDeployment", deployments[at], look.findings)),
    ...findingBlocks("Workload", workload, decision.findings),
  ];
  const block = worstBlock([...blocksOf(workload, deployments, instances), ...findings]);
  const steps = [
    ...decision.create.map(({ metadata }) => `create WorkloadDeployment ${metadata?.name}`),
    ...decision.patch.map(({ deployment: { metadata } }) => `change WorkloadDeployment ${metadata?.name}`),
    ...decision.delete.map(({ metadata }) => `delete WorkloadDeployment ${metadata?.name}`),
  ];
  const blocked = instances.find((it) => aboutOf("Instance", it) === block?.about);
  const acting = looks.findIndex(({ actions: [action] }) => action !== undefined);
  const next =
    steps.length > 0
      ? { now: steps, onChangeOf: ["its deployments"] }
      : blocked !== undefined
        ? nextOf(blocked, facts)
        : isElsewhere(deployments)
          ? NEXT_ELSEWHERE
          : nextOfDeployment(nameOf(deployments[acting]), looks[acting] ?? SETTLED);
  const placements = workload.spec?.placements ?? [];
  const desired = placements.reduce(
    (sum, { cityCodes, scaleSettings }) => sum + cityCodes.length * scaleSettings.minReplicas,
    0,
  );
  return {
    ...explanation(aboutOf("Workload", workload), { block, next, facts }),
    ...sinceOf(deployments),
    unread: facts.unread,
    tree: {
      kind: "Workload",
      name: nameOf(workload),
      state: `${instances.filter(isReady).length}/${desired} ready`,
      detail: placements.map(({ name, cityCodes }) => `${name}: ${cityCodes.join(", ")}`).join("; "),
      children: deployments.map((it, at) => deploymentNode(it, looks[at] ?? SETTLED, facts)),
    },
  };
}

/** Of Workloads that run in cells, the hub sees no more than that. */
const NEXT_ELSEWHERE: Next = { now: [], onChangeOf: ["its cells or the hub"] };

function isElsewhere(deployments: readonly WorkloadDeployment[]): boolean {
  return deployments.length > 0 && deployments.every(isCarried);
}

/** When the cell that is silent for longest was heard. */
function sinceOf(deployments: readonly WorkloadDeployment[]): Pick<FleetExplanation, "since"> {
  const [since] = deployments.flatMap(({ status }) => status?.since ?? []).sort();
  return since === undefined ? {} : { since };
}

const SETTLED = { removeGate: [], actions: [], findings: [] };

export function explainInstance(instance: Instance, facts: FleetFacts): FleetExplanation {
  const deployment = deploymentOf(instance, facts);
  const network = deployment && networkDecision(deployment, facts)?.blocked;
  const about = aboutOf("Instance", instance);
  const networkBlock =
    network !== undefined && hasGate(instance, gates.network) ? [{ ...network, about, rank: 2 }] : [];
  const carried = deployment !== undefined && isCarried(deployment) ? [deployment] : [];
  const stale = staleBlocks(carried);
  const block = worstBlock([...instanceBlock(instance), ...networkBlock, ...stale]);
  return {
    ...explanation(about, { block, next: nextOf(instance, facts), facts }),
    ...sinceOf(carried),
    unread: facts.unread,
    tree: instanceNode(instance, facts),
  };
}

function explanation(
  about: string,
  {
    block,
    next,
    facts,
  }: { readonly block: Block | undefined; readonly next: Next; readonly facts: FleetFacts },
): Omit<FleetExplanation, "tree" | "unread"> {
  if (block === undefined) return { about, next };
  const { rank: _, ...blocking } = block;
  const advice = adviceFor(block.reason, { hasCells: facts.planes !== undefined });
  return { about, blocking, ...(advice !== undefined && { advice }), next };
}

function nextOf(instance: Instance, facts: FleetFacts): Next {
  const deployment = deploymentOf(instance, facts);
  if (deployment !== undefined && isCarried(deployment)) return NEXT_ELSEWHERE;
  const view = instanceView(instance, facts);
  const decision = decideInstance(view);
  // What is said of an Instance with gates depends on networks and quota.
  const isKnown = facts.unread.length === 0 || gatesOf(instance).length === 0;
  const { recheckAfterMs, waitsFor } = decision;
  return nextOfInstance(view, isKnown ? decision : { recheckAfterMs, waitsFor });
}

function findingBlocks(
  kind: string,
  object: WorkloadDeployment | Workload | undefined,
  findings: readonly { readonly reason: string; readonly message: string }[],
): readonly Block[] {
  const about = aboutOf(kind, object ?? {});
  return findings.map(({ reason, message }) => ({ reason, message, about, rank: 6 }));
}

function deploymentNode(
  deployment: WorkloadDeployment,
  { actions: [action] }: { readonly actions: ReturnType<typeof deploymentDecision>["actions"] },
  facts: FleetFacts,
): TreeNode {
  const instances = instancesOf(deployment, facts);
  const city = deployment.spec?.cityCode ?? "";
  const steps = isCarried(deployment)
    ? carriedText(deployment, facts)
    : action
      ? [actionText(nameOf(deployment), action)]
      : [];
  return {
    kind: "WorkloadDeployment",
    name: nameOf(deployment),
    state: `${instances.filter(isReady).length}/${desiredCount(deployment)} ready`,
    detail: [city, ...steps].join(", "),
    children: [
      ...cellNodes(deployment, facts),
      ...instances
        .toSorted((a, b) => nameOf(a).localeCompare(nameOf(b), "en", { numeric: true }))
        .map((it) => instanceNode(it, facts)),
    ],
  };
}

/** How far its cell is. */
function carriedText(
  { metadata, status }: WorkloadDeployment,
  { planes, nowMs }: FleetFacts,
): readonly string[] {
  const { observedGeneration: seen, since, unheard = 0 } = status ?? {};
  const age = since === undefined ? undefined : formatAge(nowMs - (fromTime(since) ?? nowMs));
  return [
    ...(planes === undefined ? ["the cell is not known"] : []),
    ...(seen === metadata?.generation ? [] : ["its cell has not confirmed the present template"]),
    ...(age === undefined ? [] : [`${unheard} of the ready ones not heard of for ${age}`]),
  ];
}

/** The cell where it is, and the verdict on each other one of its city. */
function cellNodes(deployment: WorkloadDeployment, { planes, nowMs }: FleetFacts): readonly TreeNode[] {
  if (planes === undefined || !isCarried(deployment)) return [];
  const { placement, verdicts } = placingOf(deployment, planes);
  const node = (name: string, of: State): TreeNode => ({ kind: "Cell", name, ...of, children: [] });
  const { next, leaving } = placement ?? {};
  const stuck = findCondition(deployment.status?.conditions, "Moving");
  const stays = stuck && `it cannot leave: ${stuck.reason}: ${stuck.message}`;
  const targets = [
    { target: placement, here: stays },
    { target: next, here: "it moves here" },
    { target: leaving, here: "it leaves" },
  ].flatMap(({ target, here }) => (target === undefined ? [] : [{ target, here }]));
  const others = verdicts.filter(({ cell }) => targets.every(({ target }) => target.cell !== cell));
  return [
    ...targets.map(({ target, here }) => node(target.cell, cellText(target, planes, nowMs, here))),
    ...others.map(({ cell, reason, message }) => {
      const wouldDo = placement !== undefined && (reason === "Chosen" || reason === "MoreLoaded");
      const detail = wouldDo ? "it would do, and deployments stay where they are" : `${reason}: ${message}`;
      return node(cell, { state: "not here", detail });
    }),
  ];
}

function instanceNode(instance: Instance, facts: FleetFacts): TreeNode {
  const [block] = instanceBlock(instance);
  const deployment = deploymentOf(instance, facts);
  const node = {
    kind: "Instance",
    name: nameOf(instance),
    state: block === undefined ? "ready" : block.reason === "Deleting" ? "deleting" : "not ready",
  };
  const blockText = block && `${block.reason}: ${block.message}`;
  if (deployment !== undefined && isCarried(deployment))
    return { ...node, detail: blockText ?? addressOf(instance), children: [] };
  const { quota, network, provider } = instanceView(instance, facts);
  const pod = podState(provider);
  const blocked = deployment && networkDecision(deployment, facts)?.blocked;
  return {
    ...node,
    detail: blockText ?? pod.detail,
    children: [
      ...(facts.isGiven
        ? [{ kind: "ResourceClaim", name: claimName(nameOf(instance)), ...claimState(quota), children: [] }]
        : []),
      {
        kind: "Network",
        name: "",
        ...(facts.networks === "unknown" ? NOT_READ : networkState(network, instance, blocked?.message)),
        children: [],
      },
      { kind: "Pod", name: nameOf(instance), ...pod, children: [] },
    ],
  };
}

function addressOf({ status }: Instance): string {
  return status?.networkInterfaces?.[0]?.assignments?.networkIP ?? "";
}

type State = Pick<TreeNode, "state" | "detail">;

const NOT_READ: State = { state: "not read", detail: "" };

function claimState(quota: QuotaSeen): State {
  if (quota.is === "off") return { state: "not needed", detail: "the Fleet has no quota service" };
  if (quota.is === "unresolvable") return { state: "unknown", detail: quota.message };
  if (quota.is === "failed") return { state: "unknown", detail: `${quota.reason}: ${quota.message}` };
  const { claim } = quota;
  if (claim.is === "unknown") return { state: "not read", detail: claim.because };
  if (claim.is === "none") return { state: "none", detail: "" };
  const granted = findCondition(claim.value.status?.conditions, "Granted");
  if (granted === undefined) return { state: "pending", detail: "the quota service has not answered" };
  const state = granted.status === "True" ? "granted" : "not granted";
  return { state, detail: [granted.reason, granted.message].filter(Boolean).join(": ") };
}

function networkState(network: NetworkSeen, instance: Instance, blocked = ""): State {
  if (network.is === "off") return { state: "not needed", detail: "the cluster has no networks" };
  if (network.failed !== undefined) return { state: "failed", detail: network.failed.message };
  return hasGate(instance, gates.network) && !network.isReady
    ? { state: "not ready", detail: blocked }
    : { state: "ready", detail: "" };
}

function podState(provider: ProviderSeen): State {
  if (provider.is === "external") return { state: "external", detail: "another program runs the Instance" };
  const { pod } = provider;
  if (pod.is === "unknown") return { state: "not read", detail: pod.because };
  if (pod.is === "none") return { state: "none", detail: "" };
  const { spec, status, metadata } = pod.value;
  const where = spec?.nodeName ? `on node ${spec.nodeName}` : "no node yet";
  const state = metadata?.deletionTimestamp === undefined ? (status?.phase ?? "Pending") : "deleting";
  return { state, detail: [where, status?.podIP ?? ""].filter(Boolean).join(", ") };
}

function nameOf(object: KubeObject | undefined): string {
  return object?.metadata?.name ?? "";
}
