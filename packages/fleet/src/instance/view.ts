/** The input and the output of the decision about one Instance. Plain data: no lister, clock or client. */
import type { Condition, Pod } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import type { ResourceClaim } from "../api/quota.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance, InstanceStatus } from "../api/workload.ts";

/** Everything that the decision may look at. */
export interface InstanceView {
  readonly instance: Instance;
  /** Wall time, ms. */
  readonly nowMs: number;
  readonly quota: QuotaSeen;
  readonly network: NetworkSeen;
  /** `external`: another program starts the workload and writes `Programmed` and `Available`. */
  readonly provider: { readonly is: "external" } | { readonly is: "pods"; readonly pod: Seen<Pod> };
}

/** What is known of the quota for one Instance. */
export type QuotaSeen =
  /** No quota service is configured. */
  | { readonly is: "off" }
  /** The project of the namespace is not known: its label is missing or unreadable. */
  | { readonly is: "unresolvable"; readonly message: string }
  /** The last request about the claim failed. */
  | { readonly is: "failed"; readonly reason: QuotaFailure; readonly message: string }
  | { readonly is: "read"; readonly project: string; readonly claim: Seen<ResourceClaim> };

/** Reasons of QuotaGranted for a failed request. */
export type QuotaFailure =
  | "QuotaBackendUnavailable"
  | "QuotaNamespaceNotFound"
  | "QuotaProjectNotFound"
  | "QuotaMisconfigured";

export type NetworkSeen =
  /** The cluster has no networks: a gate `Network` does not hold an Instance. */
  | { readonly is: "off" }
  /** `isReady`: gate `Network` may go. `failed`: the condition of the NetworkBinding that failed. */
  | { readonly is: "on"; readonly isReady: boolean; readonly failed?: Condition | undefined };

/** What Berth does about one Instance now. An empty decision means that it is settled. */
export interface InstanceDecision {
  /** The whole status, when it differs from the stored one and is due. */
  readonly status?: InstanceStatus | undefined;
  /** The gates that remain, when one goes. Sent after the status is stored. */
  readonly gates?: readonly { readonly name: string }[] | undefined;
  /** The finalizers that remain, when ours go or are missing. One patch, together with `gates`. */
  readonly finalizers?: readonly string[] | undefined;
  readonly claim?: "create" | "delete" | undefined;
  readonly pod?:
    | { readonly do: "create"; readonly pod: Pod }
    | { readonly do: "delete"; readonly pod: Pod; readonly message: string }
    | undefined;
  /** Recorded as Events on the Instance, once for each change of a condition. */
  readonly news?: readonly News[] | undefined;
  readonly recheckAfterMs?: number | undefined;
  /** Why the next look is then: for the log and for `explain`. */
  readonly waitsFor?: string | undefined;
}

export interface News {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** What one part of Berth says about an Instance. The decision merges all of them to one status. */
export interface Contribution {
  readonly conditions: readonly DesiredCondition[];
  readonly observedTemplateHash?: string | undefined;
  readonly networkIP?: string | undefined;
  readonly recheckAfterMs?: number | undefined;
}
