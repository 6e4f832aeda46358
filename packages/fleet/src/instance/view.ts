/** The input and the output of the decision about one Instance. Plain data: no lister, clock or client. */
import type { Condition, Pod } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import type { ResourceClaim } from "../api/quota.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance, InstanceStatus } from "../api/workload.ts";
import type { InstanceRules } from "../fleet/document.ts";

/** Everything that the decision may look at. */
export interface InstanceView {
  readonly instance: Instance;
  /** Wall time, ms. */
  readonly nowMs: number;
  /** How long this process has known the Instance, monotonic ms. Its creationTimestamp is of another clock. */
  readonly knownMs: number;
  readonly rules: InstanceRules;
  /** This cluster, in the label `source-cluster` of claims. */
  readonly source: string;
  readonly quota: QuotaSeen;
  readonly network: NetworkSeen;
  readonly provider: ProviderSeen;
}

/** What is known of the quota for one Instance. */
export type QuotaSeen =
  /** No quota service is configured. */
  | { readonly is: "off" }
  /** The namespace was read, and it does not name its project. A namespace that was not read is an unknown claim. */
  | { readonly is: "unresolvable"; readonly message: string }
  /** The last request about the claim failed. */
  | { readonly is: "failed"; readonly reason: QuotaFailure; readonly message: string }
  | {
      readonly is: "read";
      readonly project: string;
      readonly claim: Seen<ResourceClaim>;
      /** How long this process has known this very claim, monotonic ms. Default 0. */
      readonly knownMs?: number;
    };

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

export type ProviderSeen =
  /** Another program starts the workload and writes `Programmed` and `Available`. */
  | { readonly is: "external" }
  | {
      readonly is: "pods";
      readonly pod: Seen<Pod>;
      /** Why the API server refused the last Pod of this Instance. */
      readonly refusal?: string | undefined;
      /** Default: this process sees it for the first time. */
      readonly memory?: PodMemory | undefined;
    };

/** What this process remembers of the Pods of one Instance. */
export interface PodMemory {
  /** How long it has known this one, monotonic ms. */
  readonly knownMs: number;
  /** How many have ended by themselves since the Instance was last ready, this one included. */
  readonly ended: number;
}

/**
 * What Berth does about one Instance now. A decision with nothing but a recheck means that it is settled.
 *
 * The caller asks for a change of the claim without waiting for the answer, which brings the next decision. It decides
 * again once the Instance has changed. Patches carry the version that the decision saw.
 */
export interface InstanceDecision {
  /** The whole status, when it differs from the stored one and is due. */
  readonly status?: InstanceStatus | undefined;
  /** The gates that remain, when one goes. Never together with `status`: a grant is stored before its gate goes. */
  readonly gates?: readonly { readonly name: string }[] | undefined;
  /** The finalizers that remain, when ours go or one is missing. One patch, together with `gates` and `adopts`. */
  readonly finalizers?: readonly string[] | undefined;
  /** The uid of a claim of another program, to record that it is that of this Instance. */
  readonly adopts?: string | undefined;
  /** The claim to create has no namespace: the project has it. `delete` is about this very claim. */
  readonly claim?: { readonly do: "create" | "delete"; readonly claim: ResourceClaim } | undefined;
  readonly pod?:
    | { readonly do: "create"; readonly pod: Pod }
    | { readonly do: "delete"; readonly pod: Pod; readonly message: string }
    | undefined;
  /** Recorded as Events on the Instance, once the status or the finalizers of the decision are stored. */
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
