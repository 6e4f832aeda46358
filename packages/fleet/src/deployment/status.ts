/** The status of a deployment, from its Instances. Nothing in it changes with time alone. */
import { isDeepStrictEqual } from "node:util";
import { findCondition, isConditionTrue } from "@berth/runtime";
import { gates } from "../api/keys.ts";
import { rankOf, worstOf } from "../api/ranks.ts";
import type { DeploymentStatus, Instance, LocationReference, WorkloadDeployment } from "../api/workload.ts";
import { isFailure } from "../instance/ready.ts";
import { awaitsQuota, hasGate } from "../instance/tiers.ts";
import { desiredCount, isHeld, sourceGeneration } from "./build.ts";
import { type Block, conditionsWith, type Verdict } from "./conditions.ts";

/** What the network step of the deployment came to. */
export type NetworkStep =
  /** The cluster has no networks: nothing waits for one. */
  | { readonly is: "off" }
  | {
      readonly is: "ready" | "waiting";
      /** Absent: no Location has the city of the deployment. */
      readonly location?: LocationReference | undefined;
      /** Why it waits. Default `NetworkProvisioning`, and `NoMatchingLocation` without a Location. */
      readonly reason?: string | undefined;
      readonly message?: string | undefined;
    };

export interface StatusView {
  readonly deployment: WorkloadDeployment;
  readonly instances: readonly Instance[];
  readonly isCurrent: (instance: Instance) => boolean;
  readonly network: NetworkStep;
  /** Why a roll waits; `""`: that is not known yet. Absent: it does not. */
  readonly hold?: string | undefined;
  /** Why wanted names are taken, as sentences. Default none. */
  readonly taken?: readonly string[] | undefined;
  /** Why the API server refused the last creation or deletion of an Instance. */
  readonly refusal?: string | undefined;
  /** Why no Instance of the template can ever start. */
  readonly refused?: Block | undefined;
  /** What of the template does not reach the Pods. */
  readonly leftOut?: Verdict | undefined;
  readonly nowMs: number;
}

export const NOT_READ: readonly string[] = ["NetworksNotRead"];
/** The condition of a deployment that the hub holds. */
const HELD = "the hub has a later placement of the deployment: this one wants no instances";
/** Left by the central scheduler of earlier releases, as types or reasons. */
const SCHEDULER: ReadonlySet<string> = new Set(["LocationAssigned", "NoCandidateLocations"]);
/** From this rank on, the reason of one Instance is that of its deployment. */
const INSTANCE_RANK = rankOf("ImageUnavailable");

/** The new status; the present one itself when nothing changes. Fields of others stay. */
export function deploymentStatus(view: StatusView): DeploymentStatus {
  const { deployment, instances, isCurrent, network, taken = [], nowMs } = view;
  const unread = waitFor(network, NOT_READ);
  const { metadata, status } = deployment;
  const ready = instances.filter((it) => isTrue(it, "Ready")).length;
  const updated = instances.filter(
    (it) =>
      isCurrent(it) && it.status?.controller?.observedTemplateHash === it.spec?.controller?.templateHash,
  );
  const observedGeneration = metadata?.generation;
  const observedSourceGeneration = sourceGeneration(deployment);
  const leftovers = (status?.conditions ?? []).filter(
    ({ type, reason }) => SCHEDULER.has(type) || SCHEDULER.has(reason),
  );
  const conditions = conditionsWith(status?.conditions, {
    of: {
      ...Object.fromEntries(leftovers.map(({ type }) => [type, undefined])),
      Available: availability(view, ready),
      ReplicasReady: replicasReady(view, ready),
      Failing: failing(instances.flatMap(blockOf)),
      ...progressing(view),
      InstanceConflict: taken.length === 0 ? undefined : { ...nameTaken(taken), status: "True" },
      NetworksRead: unread && { status: "False", ...unread },
      TemplateApplied: view.leftOut,
    },
    generation: observedGeneration,
    nowMs,
  });
  const location = network.is === "off" ? undefined : network.location;
  const next: DeploymentStatus = {
    ...status,
    ...(location && { location }),
    replicas: instances.length,
    readyReplicas: ready,
    updatedReplicas: updated.length,
    currentReplicas: updated.filter((it) => isTrue(it, "Programmed")).length,
    desiredReplicas: desiredCount(deployment),
    conditions,
    ...(observedGeneration !== undefined && { observedGeneration }),
    ...(observedSourceGeneration !== undefined && { observedSourceGeneration }),
  };
  return status !== undefined && isDeepStrictEqual(next, status) ? status : next;
}

/** The worst failure that a person has to look at, also while others are available. `undefined`: there is none. */
export function failing(blocks: readonly Block[]): Verdict | undefined {
  const [first, ...more] = blocks.filter(({ reason }) => isFailure(reason));
  if (first === undefined) return undefined;
  const { reason, message } = worstOf(first, more);
  return { status: "True", reason, message };
}

/** Empty: it stays as it is. */
function progressing({ refused, hold }: StatusView): Readonly<Record<string, Verdict | undefined>> {
  if (refused !== undefined) return { Progressing: { status: "False", ...refused } };
  return hold === "" ? {} : { Progressing: hold === undefined ? undefined : paused(hold) };
}

function paused(hold: string): Verdict {
  const message = `Ready instances of the earlier template stay, as a new one could not start: ${hold}`;
  return { status: "False", reason: "RollPaused", message };
}

/** Why the deployment waits, where that is one of these reasons. */
export function waitFor(network: NetworkStep, reasons: readonly string[]): Block | undefined {
  const { reason = "", message = "" } = network.is === "waiting" ? network : {};
  return reasons.includes(reason) ? { reason, message } : undefined;
}

function nameTaken(taken: readonly string[]): Block {
  return { reason: "InstanceNameTaken", message: taken.join("; ") };
}

function isTrue({ status }: Instance, type: string): boolean {
  return isConditionTrue(status?.conditions, type);
}

function availability(view: StatusView, ready: number): Verdict {
  const { deployment, instances, network, refusal, refused, taken = [] } = view;
  const counts = `${ready}/${instances.length} instances are ready`;
  if (ready > 0) return { status: "True", reason: "StableInstanceFound", message: counts };
  if (isHeld(deployment)) return { status: "False", reason: "Superseded", message: HELD };
  if (taken.length > 0) return { status: "False", ...nameTaken(taken) };
  if (refused !== undefined) return { status: "False", ...refused };
  if (network.is === "waiting") {
    const reason = network.location === undefined ? "NoMatchingLocation" : "NetworkProvisioning";
    const city = `No Location matches city code "${deployment.spec?.cityCode ?? ""}"`;
    const standard = network.location === undefined ? city : "the networks of the deployment are not ready";
    return { status: "False", reason: network.reason ?? reason, message: network.message ?? standard };
  }
  const provisioning = { reason: "InstancesProvisioning", message: refusal ?? counts };
  return { status: "False", ...worstOf(provisioning, instances.flatMap(blockOf)) };
}

function replicasReady({ deployment, instances, refusal, taken = [] }: StatusView, ready: number): Verdict {
  const desired = desiredCount(deployment);
  const pending = instances.filter((it) => quotaBlock(it) !== undefined).length;
  if (pending > 0) {
    const message = `${pending} of ${desired} desired replicas are pending quota`;
    return { status: "False", reason: "QuotaExceeded", message };
  }
  const message = `${ready}/${desired} replicas available`;
  if (ready >= desired) return { status: "True", reason: "ReplicasAvailable", message };
  const none = { reason: "", message: refusal ?? "" };
  const blocks = [...(taken.length > 0 ? [nameTaken(taken)] : []), ...instances.flatMap(blockOf)];
  const { message: why } = worstOf(none, blocks);
  return { status: "False", reason: "InstancesProvisioning", message: why ? `${message}; ${why}` : message };
}

/** Why the Instance does not run, where it is worth naming for the whole deployment. */
function blockOf(instance: Instance): readonly Block[] {
  const quota = quotaBlock(instance);
  const ready = findCondition(instance.status?.conditions, "Ready");
  const isWorse = ready !== undefined && rankOf(ready.reason) >= INSTANCE_RANK;
  // Nothing opens this gate, so only a person can.
  const isHeld = ready !== undefined && hasGate(instance, gates.referencedData);
  const gate = isHeld ? { ...ready, reason: "ReferencedDataNotReady" } : undefined;
  const block = gate ?? (quota ? { ...quota, reason: "QuotaNotGranted" } : isWorse ? ready : undefined);
  if (block === undefined) return [];
  return [{ reason: block.reason, message: `${instance.metadata?.name ?? ""}: ${block.message}` }];
}

/** The condition that says so. An evaluation that has only begun blocks nothing, and neither does one without a gate. */
function quotaBlock(instance: Instance): { readonly message: string } | undefined {
  if (!awaitsQuota(instance)) return undefined;
  const granted = findCondition(instance.status?.conditions, "QuotaGranted");
  return granted?.status === "False" || granted?.reason === "QuotaNoBudget" ? granted : undefined;
}
