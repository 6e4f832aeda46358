/** Does a pod need the agent? Pure and total: pods are untrusted. */
import type { Container, OwnerReference, Pod, Volume } from "@berth/kube";
import { ownValue } from "../node/mark.ts";
import { controllerOf, groupOf } from "../node/owner-reference.ts";
import { isPositiveQuantity } from "../node/quantity.ts";
import { isEmptySelector, matchesSelector } from "../node/selector.ts";
import type { Footprint, NeedingPods } from "./footprint.ts";
import type { FootprintSight } from "./footprint-sight.ts";

/** `unknown`: what it depends on has not been read. */
export type Answer = "yes" | "no" | "unknown";

export type NeedSight = Pick<FootprintSight, "namespaceLabels" | "driverOfClaim">;

/** Phases of a pod whose containers have all ended, for good. */
export const FINISHED: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

/** One workload that takes the pod is enough. The agent's own pods never need it, and mirror pods never count. */
export function podNeeds(pod: Pod, footprint: Footprint, sight: NeedSight): Answer {
  const controller = controllerOf(pod.metadata ?? {});
  if (controller !== undefined && (isNode(controller) || isAgent(pod, controller, footprint))) return "no";
  let answer: Answer = "no";
  for (const workload of footprint.workloads) {
    const said = isTaken(pod, workload, sight);
    if (said === "yes") return "yes";
    if (said === "unknown") answer = "unknown";
  }
  return answer;
}

/**
 * A kubelet makes mirror pods on its own node, of any namespace and with any labels; it has to name the node as their
 * controller (NodeRestriction `admitPodCreate`). It could have Berth set labels for it that it may not set itself.
 */
function isNode({ apiVersion, kind }: OwnerReference): boolean {
  return kind === "Node" && groupOf(apiVersion) === "";
}

/**
 * An agent would keep itself on a node for ever. With `Off` its DaemonSet is never read, and may be one of another group, as
 * the Advanced DaemonSet of OpenKruise is (`apps.kruise.io`).
 */
function isAgent(
  { metadata }: Pod,
  { apiVersion, kind, name }: OwnerReference,
  { agent }: Footprint,
): boolean {
  if (agent === undefined || metadata?.namespace !== agent.namespace) return false;
  if (kind !== "DaemonSet" || name !== agent.name) return false;
  return agent.nodeSelector === "Off" || groupOf(apiVersion) === "apps";
}

/** All of it has to hold; what is certain counts before what is unknown. */
function isTaken(pod: Pod, workload: NeedingPods, sight: NeedSight): Answer {
  const { podSelector, namespaceSelector, requests, csiDrivers } = workload;
  if (!isCounted(pod, workload)) return "no";
  if (!matchesSelector(podSelector, pod.metadata?.labels)) return "no";
  if (requests.length > 0 && !requests.some((resource) => isRequested(pod, resource))) return "no";
  const inNamespace = namespaceAnswer(pod, namespaceSelector, sight);
  if (inNamespace === "no" || csiDrivers.length === 0) return inNamespace;
  const mounted = driverAnswer(pod, csiDrivers, sight);
  return mounted === "yes" ? inNamespace : mounted;
}

/** Does it count by the state of its life? One that ends and is finished besides never does. */
function isCounted({ metadata, status }: Pod, { ignorePhases, terminating }: NeedingPods): boolean {
  const phase = status?.phase ?? "Pending";
  if (ignorePhases.has(phase)) return false;
  if (metadata?.deletionTimestamp === undefined) return true;
  return terminating === "Hold" && !FINISHED.has(phase);
}

function namespaceAnswer(
  { metadata }: Pod,
  selector: NeedingPods["namespaceSelector"],
  sight: NeedSight,
): Answer {
  if (isEmptySelector(selector)) return "yes";
  const labels = sight.namespaceLabels(metadata?.namespace ?? "");
  if (labels === undefined) return "unknown";
  // Unknown for ever where a namespace was finalized by force: its pods stay. When one comes, all is looked at again.
  return labels !== null && matchesSelector(selector, labels) ? "yes" : "no";
}

/**
 * By any container, or by the pod as a whole. The API server sets requests from limits before it stores a pod
 * (`SetDefaults_Pod`); a limit counts for those that it has not seen.
 */
function isRequested({ spec }: Pod, resource: string): boolean {
  const asks = ({ resources }: Pick<Container, "resources">): boolean => {
    const quantity = ownValue(resources?.requests, resource) ?? ownValue(resources?.limits, resource);
    return typeof quantity === "string" && isPositiveQuantity(quantity);
  };
  if (spec === undefined) return false;
  return asks(spec) || [...(spec.containers ?? []), ...(spec.initContainers ?? [])].some(asks);
}

function driverAnswer({ metadata, spec }: Pod, drivers: readonly string[], sight: NeedSight): Answer {
  let answer: Answer = "no";
  for (const volume of spec?.volumes ?? []) {
    const driver = driverOf(volume, metadata, sight);
    if (driver === undefined) answer = "unknown";
    else if (driver !== null && drivers.includes(driver)) return "yes";
  }
  return answer;
}

/**
 * The claim behind a volume; `undefined` where it has none. That of an ephemeral volume is called after pod and volume
 * (`ephemeral.VolumeClaimName`, k8s.io/component-helpers).
 */
export function claimOf({ name, persistentVolumeClaim, ephemeral }: Volume, pod: string): string | undefined {
  return persistentVolumeClaim?.claimName ?? (ephemeral && `${pod}-${name}`);
}

function driverOf(volume: Volume, metadata: Pod["metadata"], sight: NeedSight): string | null | undefined {
  if (volume.csi !== undefined) return volume.csi.driver;
  const claim = claimOf(volume, metadata?.name ?? "");
  return claim === undefined ? null : sight.driverOfClaim(metadata?.namespace ?? "", claim);
}
