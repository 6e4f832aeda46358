/** Reads from a Pod what is true of its Instance. Pure. */
import type { ContainerStatus, Pod } from "@berth/kube";
import { type DesiredCondition, fromTime } from "@berth/runtime";
import type { Contribution } from "../instance/view.ts";

type Fault = "ImageUnavailable" | "InstanceCrashing" | "ConfigurationError";

/** What the kubelet writes as the reason of a waiting container (`kubelet/{images,container,kuberuntime}`, 1.36). */
const FAULTS: ReadonlyMap<string | undefined, Fault> = new Map([
  ["ErrImagePull", "ImageUnavailable"],
  ["ImagePullBackOff", "ImageUnavailable"],
  ["InvalidImageName", "ImageUnavailable"],
  ["ErrImageNeverPull", "ImageUnavailable"],
  ["ImageInspectError", "ImageUnavailable"],
  ["SignatureValidationFailed", "ImageUnavailable"],
  ["RegistryUnavailable", "ImageUnavailable"],
  ["CreateContainerConfigError", "ConfigurationError"],
  ["CreateContainerError", "ConfigurationError"],
  ["RunContainerError", "ConfigurationError"],
  ["CrashLoopBackOff", "InstanceCrashing"],
]);

/** The kubelet alternates between the error of a pull and this text before the same error. */
const PULL_BACK_OFF = /^Back-off pulling image "[^"]*": (?:\w+: )?/;

/**
 * A container without a readiness probe is ready as soon as it runs. So one that crashes again and again looks ready
 * between two crashes. From its second restart on, it counts as crashing until it has run for this long.
 */
const STABLE_AFTER_MS = 60_000;

/** Longest message in a condition, in characters. Kubelets and schedulers may write much more. */
const MAX_MESSAGE = 1024;

/**
 * For a Pod that belongs to the Instance, has not ended and is not being deleted. `Programmed` is True once the Pod is
 * bound to a node and its containers can be made; `Available` is True while the Pod is ready.
 */
export function observePod(pod: Pod, nowMs: number): Contribution {
  const { conditions = [], podIP, containerStatuses = [] } = pod.status ?? {};
  const messageOf = (type: string) => conditions.find((it) => it.type === type)?.message;
  if (!pod.spec?.nodeName) return starting(messageOf("PodScheduled") || "The pod waits for the scheduler");
  const address = podIP ? { networkIP: podIP } : {};
  const [fault] = containerStatuses.flatMap((status) => faultOf(status, nowMs) ?? []);
  if (fault !== undefined) {
    const { reason, message, ...recheck } = fault;
    const programmed = reason === "InstanceCrashing" ? bound : blocked("Programmed", reason, message);
    return { conditions: [programmed, blocked("Available", reason, message)], ...address, ...recheck };
  }
  if (conditions.some(({ type, status }) => type === "Ready" && status === "True"))
    return { conditions: [bound, available], ...address };
  const why = messageOf("Ready");
  const message = why ? `The pod is not ready: ${why}` : "The pod is starting";
  return { conditions: [bound, blocked("Available", "Provisioning", message)], ...address };
}

/** No Pod can run this Instance as it is. */
export function misconfigured(message: string): Contribution {
  return {
    conditions: [
      blocked("Programmed", "ConfigurationError", message),
      blocked("Available", "ConfigurationError", message),
    ],
  };
}

/** A Pod will run, but no node has it yet. */
export function starting(message: string): Contribution {
  return {
    conditions: [
      blocked("Programmed", "ProgrammingInProgress", message),
      blocked("Available", "Provisioning", message),
    ],
  };
}

const bound: DesiredCondition = {
  type: "Programmed",
  status: "True",
  reason: "Programmed",
  message: "The pod is bound to a node",
};

const available: DesiredCondition = {
  type: "Available",
  status: "True",
  reason: "Available",
  message: "The pod is ready",
};

function blocked(type: string, reason: string, message: string): DesiredCondition {
  return { type, status: "False", reason, message: message.slice(0, MAX_MESSAGE).toWellFormed() };
}

interface ContainerFault {
  readonly reason: Fault;
  readonly message: string;
  readonly recheckAfterMs?: number;
}

function faultOf(status: ContainerStatus, nowMs: number): ContainerFault | undefined {
  const { name, image, state: { waiting, running, terminated } = {}, restartCount } = status;
  const reason = FAULTS.get(waiting?.reason);
  const detail = waiting?.message?.replace(PULL_BACK_OFF, "") || waiting?.reason;
  if (reason === "ImageUnavailable")
    return { reason, message: `Container ${name} has no image ${image}: ${detail}` };
  if (reason === "ConfigurationError")
    return { reason, message: `Container ${name} cannot start: ${detail}` };
  const ranMs = Math.max(0, nowMs - (fromTime(running?.startedAt) ?? nowMs));
  const isUnstable = running !== undefined && restartCount >= 2 && ranMs < STABLE_AFTER_MS;
  if (reason === undefined && terminated === undefined && !isUnstable) return undefined;
  return {
    reason: "InstanceCrashing",
    message: crashMessage(status),
    ...(isUnstable && { recheckAfterMs: STABLE_AFTER_MS - ranMs }),
  };
}

function crashMessage({ name, state, lastState, restartCount }: ContainerStatus): string {
  const { exitCode, reason = "", message = "" } = state?.terminated ?? lastState?.terminated ?? {};
  const ended = exitCode === undefined ? "crashes" : `exited with code ${exitCode}`;
  const because = ["", "Error", "Completed"].includes(reason) ? "" : ` (${reason})`;
  const restarts = restartCount === 0 ? "" : ` after ${restartCount} restart${restartCount === 1 ? "" : "s"}`;
  return `Container ${name} ${ended}${because}${restarts}${message && `: ${message.trim()}`}`;
}
