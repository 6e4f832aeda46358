/** The verdict on one pod for a gate: whether it counts, and whether it is ready. */
import type { ContainerStatus, DaemonSet, Node, OwnerReference, Pod, PodCondition } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import { ownValue } from "../node/mark.ts";
import type { PodSignal } from "./document.ts";
import type { Boot, GateObservations } from "./gate.ts";

export type PodVerdict =
  | { readonly is: "ready"; readonly since?: Instant; readonly evidence: string }
  /** `ignored`: as if the pod did not exist. `why` continues after the name of the pod: `it is terminating`. */
  | { readonly is: "notReady" | "ignored" | "unknown"; readonly why: string };

/** Which pods count, and when a pod is ready. */
export interface PodRule {
  /** Checks the owner: why the pod does not count, or is unknown. `undefined`: the owner is right. */
  readonly checkOwner: (pod: Pod) => PodVerdict | undefined;
  /** Annotation that makes a pod ready at `true`, whatever its containers report. */
  readonly readyAnnotation?: string;
  /** With `Annotation` nothing else makes it ready. */
  readonly readiness?: PodSignal["readiness"];
  /** With `Count` the gate ignores age and end of a pod, like nodetaintshandler, which the drop-in gate replaces. */
  readonly fromBefore: PodSignal["fromBefore"];
}

/** The container runtime and the kubelet write their times separately, in whole seconds. */
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
    // Such a pod is about to start here. It counts; otherwise a gate that wants all pods would open without it.
    const unstarted = whyUnstarted(pod, boot);
    if (unstarted !== undefined) return { is: "notReady", why: unstarted };
  }
  const uid = pod.metadata?.uid ?? "";
  const { readyAnnotation: key } = rule;
  if (key !== undefined && ownValue(pod.metadata?.annotations, key) === "true")
    return { is: "ready", evidence: uid };
  if (rule.readiness === "Annotation")
    return { is: "notReady", why: `it does not have the annotation ${key}: true` };
  const condition = pod.status?.conditions?.find(({ type }) => type === "Ready");
  const why = whyUnready(pod, condition);
  if (why !== undefined) return { is: "notReady", why };
  const { lastTransitionTime = "" } = condition ?? {};
  const since = Date.parse(lastTransitionTime);
  const evidence = `${uid}@${lastTransitionTime}`;
  return Number.isNaN(since) ? { is: "ready", evidence } : { is: "ready", evidence, since };
}

/** The pod belongs to an earlier node of that name, or is ending. The API server dates creations in whole seconds. */
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

/** The rule of the original: all containers in the status are ready, and so is the condition. */
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
 * A pod names its own owner, so a made-up or earlier DaemonSet of that name must not pass. A user who may create pods
 * in that namespace can still copy the uid. With `Anything` Berth trusts the name.
 */
export function ownerCheck(
  { ownedBy, daemonSets }: Pick<PodSignal, "ownedBy" | "daemonSets">,
  observations: Pick<GateObservations, "daemonSet">,
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
    const daemonSet = observations.daemonSet(pod.metadata?.namespace ?? "", name);
    if (daemonSet === undefined) return { is: "unknown", why: `its DaemonSet ${name} has not been read` };
    if (daemonSet === null) return { is: "ignored", why: `its DaemonSet ${name} does not exist` };
    return daemonSet.metadata?.uid === uid
      ? undefined
      : { is: "ignored", why: `its DaemonSet ${name} is another one now` };
  };
}

/** Accepts only pods of this very DaemonSet. */
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
