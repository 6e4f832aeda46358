/** What one pod on a node says about a gate: whether it counts at all, and whether it is ready. */
import type { ContainerStatus, DaemonSet, Node, OwnerReference, Pod, PodCondition } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import { ownValue } from "../node/mark.ts";
import type { PodSignal } from "./document.ts";
import type { Boot, GateSight } from "./gate.ts";

export type PodVerdict =
  | { readonly is: "ready"; readonly since?: Instant; readonly evidence: string }
  /** `ignored`: as if it was not there. `why` goes on from the name of the pod: `it is terminating`. */
  | { readonly is: "notReady" | "ignored" | "unknown"; readonly why: string };

/** Whose pods count, and when one is ready. */
export interface PodRule {
  /** Why the pod does not count, or cannot be told, by who made it. */
  readonly checkOwner: (pod: Pod) => PodVerdict | undefined;
  /** Ready with this at `true`, whatever its containers say. */
  readonly readyAnnotation?: string;
  /** With `Count` nothing is asked of the life of a pod, as the original does, whose place the drop-in gate takes. */
  readonly fromBefore: PodSignal["fromBefore"];
}

/** Container runtime and kubelet write their times apart from each other, in whole seconds. */
const BOOT_SLACK_MS = 5000;

export function judgePod(
  pod: Pod,
  rule: PodRule,
  { node, boot }: { readonly node: Node; readonly boot: Boot },
): PodVerdict {
  const refused = rule.checkOwner(pod);
  if (refused !== undefined) return refused;
  if (rule.fromBefore === "Ignore") {
    const over = whyOver(pod, node);
    if (over !== undefined) return { is: "ignored", why: over };
    // Such a pod is about to start here. It counts, or a gate that wants all would open without it.
    const unstarted = whyUnstarted(pod, boot);
    if (unstarted !== undefined) return { is: "notReady", why: unstarted };
  }
  const uid = pod.metadata?.uid ?? "";
  const { readyAnnotation: key } = rule;
  if (key !== undefined && ownValue(pod.metadata?.annotations, key) === "true")
    return { is: "ready", evidence: uid };
  const condition = pod.status?.conditions?.find(({ type }) => type === "Ready");
  const why = whyUnready(pod, condition);
  if (why !== undefined) return { is: "notReady", why };
  const { lastTransitionTime = "" } = condition ?? {};
  const since = Date.parse(lastTransitionTime);
  const evidence = `${uid}@${lastTransitionTime}`;
  return Number.isNaN(since) ? { is: "ready", evidence } : { is: "ready", evidence, since };
}

/** Of an earlier node of that name, or on its way out. Creation times are the API server's, in whole seconds. */
function whyOver({ metadata, status }: Pod, node: Node): string | undefined {
  if ((metadata?.deletionTimestamp ?? "") !== "") return "it is terminating";
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return `it has ended (${status.phase})`;
  const made = Date.parse(metadata?.creationTimestamp ?? "");
  const nodeMade = Date.parse(node.metadata?.creationTimestamp ?? "");
  if (made >= nodeMade) return undefined;
  return made < nodeMade ? "it is older than the node" : "its age, or that of the node, is not known";
}

function whyUnstarted({ status }: Pod, { since }: Boot): string | undefined {
  const containers = status?.containerStatuses ?? [];
  if (containers.length === 0) return "it has no container status yet";
  if (since === undefined) return undefined;
  for (const container of containers) {
    const { running } = container.state ?? {};
    if (running === undefined) return `${nameOf(container)} does not run`;
    const isOfThisBoot = Date.parse(running.startedAt ?? "") >= since - BOOT_SLACK_MS;
    if (!isOfThisBoot) return `${nameOf(container)} is not known to have started since the node booted`;
  }
  return undefined;
}

/** The rule of the original: all containers that the status names, and the condition. */
function whyUnready({ status }: Pod, condition: PodCondition | undefined): string | undefined {
  const waiting = status?.containerStatuses?.find(({ ready }) => !ready);
  if (waiting !== undefined) return nameOf(waiting);
  if (condition?.status === "True") return undefined;
  if (condition === undefined) return "it has no condition Ready";
  const reason = (condition.reason ?? "") === "" ? "" : ` (${condition.reason})`;
  return `its condition Ready is ${condition.status}${reason}`;
}

function nameOf({ name, state }: ContainerStatus): string {
  const reason = state?.waiting?.reason ?? state?.terminated?.reason ?? "";
  return reason === "" ? `container ${name}` : `container ${name} (${reason})`;
}

/**
 * The owner that the signal asks for. A pod says itself who owns it, so a made-up DaemonSet, or an earlier one of that
 * name, must not do; whoever may make pods in that namespace can still copy the uid. With `Anything` a name is taken as said.
 */
export function ownerCheck(
  { ownedBy, daemonSets }: Pick<PodSignal, "ownedBy" | "daemonSets">,
  sight: Pick<GateSight, "daemonSet">,
): PodRule["checkOwner"] {
  if (ownedBy === "Anything" && daemonSets.length === 0) return () => undefined;
  return (pod) => {
    const owner = daemonSetOf(pod);
    if (owner === undefined) return { is: "ignored", why: "no DaemonSet controls it" };
    const { name, uid } = owner;
    if (daemonSets.length > 0 && !daemonSets.includes(name)) {
      return { is: "ignored", why: `its DaemonSet ${name} is not one of the signal` };
    }
    if (ownedBy === "Anything") return undefined;
    const daemonSet = sight.daemonSet(pod.metadata?.namespace ?? "", name);
    if (daemonSet === undefined) return { is: "unknown", why: `its DaemonSet ${name} has not been read` };
    if (daemonSet === null) return { is: "ignored", why: `its DaemonSet ${name} does not exist` };
    return daemonSet.metadata?.uid === uid
      ? undefined
      : { is: "ignored", why: `its DaemonSet ${name} is another one now` };
  };
}

/** Pods of this very DaemonSet. */
export function ownedByCheck(daemonSet: DaemonSet): PodRule["checkOwner"] {
  return (pod) => {
    const { uid = "" } = daemonSetOf(pod) ?? {};
    return uid !== "" && uid === daemonSet.metadata?.uid
      ? undefined
      : { is: "ignored", why: "another one controls it" };
  };
}

function daemonSetOf({ metadata }: Pod): OwnerReference | undefined {
  const owner = metadata?.ownerReferences?.find(({ controller }) => controller === true);
  return owner?.kind === "DaemonSet" && owner.apiVersion.startsWith("apps/") ? owner : undefined;
}
