/** Whether the quota service has granted an Instance, from what is known of its claim. */
import type { Condition } from "@berth/kube";
import { type DesiredCondition, findCondition, hasFinalizer } from "@berth/runtime";
import { finalizers, labels } from "../api/keys.ts";
import type { ResourceClaim } from "../api/quota.ts";
import { claimFor, relationOf } from "./claim.ts";
import { awaitsQuota, jittered, lookEveryMs } from "./tiers.ts";
import type { InstanceDecision, InstanceView, News, QuotaSeen } from "./view.ts";

export interface QuotaResult {
  /** Absent: `QuotaGranted` stays as it is. */
  readonly condition?: DesiredCondition;
  readonly claim?: InstanceDecision["claim"];
  readonly adopts?: InstanceDecision["adopts"];
  readonly recheckAfterMs?: number;
  /** What to report once the condition is stored. */
  readonly news?: News;
}

/** A claim is new for so long: the quota service needs time to decide. Contract 2.7. */
const NEW_CLAIM_MS = 30_000;
/** A claim of another Instance blocks this one for so long without a Warning: its owner may be going. */
const HELD_MS = 60_000;
/** A denied claim is made again when this process has known it for so long. The quota service could not keep up before. */
const DENIED_MS = 300_000;
/** Until the next look when the name of the claim becomes free, or when the claim was changed. */
const SOON_MS = 1000;

type QuotaView = Pick<InstanceView, "instance" | "quota" | "nowMs" | "knownMs" | "rules" | "source">;

/**
 * While gate `Quota` is present, each state of the claim has its condition. Afterwards a failure changes nothing, and
 * only a decision of the quota service is reported: an outage must not show what runs as down.
 *
 * What is remade or reported after a time counts from when this process first saw it. Clocks of other machines, and
 * steps of its own, change only how often it looks.
 */
export function evaluateQuota(view: QuotaView): QuotaResult {
  const { instance, quota, nowMs } = view;
  const evaluation = new Evaluation(view);
  if (quota.is === "off") return evaluation.waiting("True", "QuotaDisabled", "Quota enforcement disabled");
  const result = evaluation.of(quota);
  // The gate goes next, so there is nothing to wait for.
  if (awaitsQuota(instance) && result.condition?.status === "True") return result;
  return { recheckAfterMs: result.claim ? SOON_MS : lookEveryMs(instance, nowMs), ...result };
}

class Evaluation {
  readonly #view: QuotaView;
  readonly #isGated: boolean;
  readonly #stored: Condition | undefined;

  constructor(view: QuotaView) {
    this.#view = view;
    this.#isGated = awaitsQuota(view.instance);
    this.#stored = findCondition(view.instance.status?.conditions, "QuotaGranted");
  }

  of(seen: Exclude<QuotaSeen, { is: "off" }>): QuotaResult {
    if (seen.is === "unresolvable") return this.waiting("False", "QuotaProjectIDUnresolvable", seen.message);
    if (seen.is === "failed") return this.waiting("False", seen.reason, seen.message);
    const { claim, project, knownMs = 0 } = seen;
    if (claim.is === "unknown") return {};
    if (claim.is === "none")
      return this.#isCounted() ? { claim: { do: "create", claim: claimFor(this.#view, project) } } : {};
    const relation = relationOf(claim.value, this.#view, project);
    if (relation === "foreign") return this.#held(claim.value);
    if (claim.value.metadata?.deletionTimestamp !== undefined) return this.#nameIsTaken();
    // What runs keeps the claim that Berth made for it, also when the catalog has changed since.
    if (relation === "leftOver" || (relation === "wrong" && this.#isGated))
      return { ...this.#nameIsTaken(), claim: { do: "delete", claim: claim.value } };
    const adopts = relation === "adoptable" ? claim.value.metadata?.uid : undefined;
    return { ...this.#answered(claim.value, project, knownMs), ...(adopts !== undefined && { adopts }) };
  }

  /** A state that is no answer. */
  waiting(status: DesiredCondition["status"], reason: string, message: string): QuotaResult {
    return this.#isGated ? this.#set(status, reason, message) : {};
  }

  /** Only an Instance that frees its claim when it goes may have one. One that runs without quota goes on so. */
  #isCounted(): boolean {
    const isMeant = this.#isGated || this.#stored?.reason !== "QuotaDisabled";
    return isMeant && hasFinalizer(this.#view.instance, finalizers.claim);
  }

  #held({ metadata }: ResourceClaim): QuotaResult {
    if (this.#view.knownMs <= HELD_MS) return this.#nameIsTaken();
    const { [labels.sourceCluster]: cluster, [labels.instanceNamespace]: namespace } = metadata?.labels ?? {};
    const uid = metadata?.labels?.[labels.instanceUid];
    const message =
      `ResourceClaim ${metadata?.namespace}/${metadata?.name} belongs to another Instance: ` +
      `cluster ${cluster ?? "unknown"}, namespace ${namespace ?? "unknown"}, uid ${uid ?? "unknown"}. ` +
      "This Instance waits until that claim is deleted";
    const { condition } = this.waiting("Unknown", "PendingEvaluation", message);
    if (condition === undefined) return {};
    const isNew = this.#stored?.message !== message;
    return { condition, ...(isNew && { news: { type: "Warning", reason: "QuotaClaimHeld", message } }) };
  }

  #nameIsTaken(): QuotaResult {
    return { ...this.#pending(), ...(this.#isGated && { recheckAfterMs: SOON_MS }) };
  }

  #answered(claim: ResourceClaim, project: string, knownMs: number): QuotaResult {
    const granted = findCondition(claim.status?.conditions, "Granted");
    const { status, reason, message } = granted ?? {};
    if (status === "True") return this.#set("True", "QuotaAvailable", message || "Quota is available");
    if (status === "False" && reason !== "PendingEvaluation") {
      const why = reason === "ValidationFailed" ? reason : "QuotaExceeded";
      const denied = this.#set("False", why, message || "The quota service gave no reason");
      return { ...denied, ...this.#again(claim, knownMs) };
    }
    if (granted === undefined || knownMs < NEW_CLAIM_MS) return this.#pending(knownMs);
    const slow = `The quota service has not decided for ${NEW_CLAIM_MS / 1000} s. Project ${project} may have no budget`;
    return this.waiting("Unknown", "QuotaNoBudget", slow);
  }

  /** A quota service need not decide about a denied claim again, and its spec is immutable: a new claim asks again. */
  #again(claim: ResourceClaim, knownMs: number): QuotaResult {
    const afterMs = jittered(DENIED_MS, claim.metadata?.uid ?? "");
    return this.#isGated && knownMs >= afterMs ? { claim: { do: "delete", claim } } : {};
  }

  /** A denial stays while a new claim is decided: each round would show two changes, and report the denial again. */
  #pending(claimKnownMs = 0): QuotaResult {
    const isSaid = ["QuotaExceeded", "ValidationFailed", "QuotaNoBudget"].includes(
      this.#stored?.reason ?? "",
    );
    if (isSaid && claimKnownMs < NEW_CLAIM_MS) return {};
    return this.waiting("Unknown", "PendingEvaluation", "Waiting for quota evaluation");
  }

  #set(status: DesiredCondition["status"], reason: string, message: string): QuotaResult {
    const observedGeneration = this.#view.instance.metadata?.generation ?? 0;
    const condition = { type: "QuotaGranted", status, reason, message, observedGeneration };
    const news = reason === this.#stored?.reason ? undefined : newsOf(condition);
    return { condition, ...(news && { news }) };
  }
}

function newsOf({ reason, message }: DesiredCondition): News | undefined {
  if (reason === "QuotaDisabled" || reason === "PendingEvaluation") return undefined;
  if (reason === "QuotaAvailable") return { type: "Normal", reason: "QuotaGranted", message };
  return { type: "Warning", reason, message };
}
