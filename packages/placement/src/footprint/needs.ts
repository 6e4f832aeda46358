/** Does a pod need the agent? Pure and total: pods are untrusted. */
import type { Container, OwnerReference, Pod, Volume } from "@berth/kube";
import { isPositiveQuantity } from "@berth/runtime";
import { ownValue } from "../node/mark.ts";
import { controllerOf, groupOf } from "../node/owner-reference.ts";
import { isEmptySelector, matchesSelector } from "../node/selector.ts";
import type { Footprint, NeedingPods } from "./footprint.ts";
import type { FootprintObservations } from "./footprint-observations.ts";

/** `unknown`: Berth has not read data that the answer needs. */
export type Answer = "yes" | "no" | "unknown";

export type NeedObservations = Pick<FootprintObservations, "namespaceLabels" | "driverOfClaim">;

/** Phases of a pod whose containers have all ended, for good. */
export const FINISHED: ReadonlySet<string> = new Set(["Succeeded", "Failed"]);

/** One workload that takes the pod is enough. The agent's own pods never need it, and mirror pods never count. */
export function podNeeds(pod: Pod, footprint: Footprint, observations: NeedObservations): Answer {
  const controller = controllerOf(pod.metadata ?? {});
  if (controller !== undefined && (isNode(controller) || isAgent(pod, controller, footprint))) return "no";
  let answer: Answer = "no";
  for (const workload of footprint.workloads) {
    const said = isTaken(pod, workload, observations);
    if (said === "yes") return "yes";
    if (said === "unknown") answer = "unknown";
  }
  return answer;
}

/**
 * A kubelet creates mirror pods on its node, in any namespace and with any labels. NodeRestriction requires the node as
 * their controller (`admitPodCreate`). If they counted, the kubelet could make Berth set labels that it may not set.
 */
function isNode({ apiVersion, kind }: OwnerReference): boolean {
  return kind === "Node" && groupOf(apiVersion) === "";
}

/**
 * If its own pods counted, an agent would stay on a node forever. With `Off`, Berth never reads the DaemonSet. It may
 * be of another API group, like the Advanced DaemonSet of OpenKruise (`apps.kruise.io`).
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

/** The pod must match every field. A certain answer wins over an unknown one. */
function isTaken(pod: Pod, workload: NeedingPods, observations: NeedObservations): Answer {
  const { podSelector, namespaceSelector, requests, csiDrivers } = workload;
  if (!isCounted(pod, workload)) return "no";
  if (!matchesSelector(podSelector, pod.metadata?.labels)) return "no";
  if (requests.length > 0 && !requests.some((resource) => isRequested(pod, resource))) return "no";
  const inNamespace = namespaceAnswer(pod, namespaceSelector, observations);
  if (inNamespace === "no" || csiDrivers.length === 0) return inNamespace;
  const mounted = driverAnswer(pod, csiDrivers, observations);
  return mounted === "yes" ? inNamespace : mounted;
}

/** Does the pod count in its phase? A finished pod that is being deleted never counts. */
function isCounted({ metadata, status }: Pod, { ignorePhases, terminating }: NeedingPods): boolean {
  const phase = status?.phase ?? "Pending";
  if (ignorePhases.has(phase)) return false;
  if (metadata?.deletionTimestamp === undefined) return true;
  return terminating === "Hold" && !FINISHED.has(phase);
}

function namespaceAnswer(
  { metadata }: Pod,
  selector: NeedingPods["namespaceSelector"],
  observations: NeedObservations,
): Answer {
  if (isEmptySelector(selector)) return "yes";
  const labels = observations.namespaceLabels(metadata?.namespace ?? "");
  if (labels === undefined) return "unknown";
  // A forced finalization can leave pods without a namespace forever. A new namespace triggers a check of all nodes.
  return labels !== null && matchesSelector(selector, labels) ? "yes" : "no";
}

/**
 * Does any container, or the pod as a whole, request the resource? The API server copies limits to requests before it
 * stores a pod (`SetDefaults_Pod`). A limit also counts, for pods without these defaults.
 */
function isRequested({ spec }: Pod, resource: string): boolean {
  const asks = ({ resources }: Pick<Container, "resources">): boolean => {
    const quantity = ownValue(resources?.requests, resource) ?? ownValue(resources?.limits, resource);
    return typeof quantity === "string" && isPositiveQuantity(quantity);
  };
  if (spec === undefined) return false;
  return asks(spec) || [...(spec.containers ?? []), ...(spec.initContainers ?? [])].some(asks);
}

function driverAnswer(
  { metadata, spec }: Pod,
  drivers: readonly string[],
  observations: NeedObservations,
): Answer {
  let answer: Answer = "no";
  for (const volume of spec?.volumes ?? []) {
    const driver = driverOf(volume, metadata, observations);
    if (driver === undefined) answer = "unknown";
    else if (driver !== null && drivers.includes(driver)) return "yes";
  }
  return answer;
}

/**
 * The claim behind a volume; `undefined` when it has none. The claim of an ephemeral volume is named after pod and
 * volume (`ephemeral.VolumeClaimName`, k8s.io/component-helpers).
 */
export function claimOf({ name, persistentVolumeClaim, ephemeral }: Volume, pod: string): string | undefined {
  return persistentVolumeClaim?.claimName ?? (ephemeral && `${pod}-${name}`);
}

function driverOf(
  volume: Volume,
  metadata: Pod["metadata"],
  observations: NeedObservations,
): string | null | undefined {
  if (volume.csi !== undefined) return volume.csi.driver;
  const claim = claimOf(volume, metadata?.name ?? "");
  return claim === undefined ? null : observations.driverOfClaim(metadata?.namespace ?? "", claim);
}
