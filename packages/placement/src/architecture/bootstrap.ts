/** When a policy may begin to taint nodes: what would be kept away from them must not be surprised. */

import { type Reason, reasons } from "../api/reasons.ts";
import { placeOf } from "./compile.ts";
import type { ArchitecturePolicyStatus } from "./document.ts";
import { BOOTSTRAP_ANNOTATION } from "./document.ts";
import { type ArchitecturePolicyInForce, taints } from "./policy.ts";

/** Workloads that neither tolerate a key nor have a verdict. */
export interface Uncovered {
  readonly pods: number;
  readonly daemonSets: number;
  /** `DaemonSet kube-system/cni`, `Pod default/web-1`: the first by name, at most 5. */
  readonly first: readonly string[];
}

export interface BootstrapInput {
  readonly policy: ArchitecturePolicyInForce;
  /** `undefined` until every unscheduled pod and every DaemonSet of the cluster has been looked at. */
  readonly uncovered: Uncovered | undefined;
  /**
   * Does some node that the policy selects carry the taint as ours, or as it should be at the original key? `undefined`
   * until every node has been looked at, or one was found.
   */
  readonly standing: boolean | undefined;
}

export interface BootstrapState {
  readonly phase: NonNullable<ArchitecturePolicyStatus["phase"]>;
  readonly reason: Reason;
  /** Why, in a sentence part: `waits for 2 pods and 1 DaemonSet that …`. */
  readonly message: string;
}

/**
 * Pure. A bootstrap ends once everything is covered, and confirmed where the policy asks for it. It is over from the
 * beginning where a node carries the taint already: of an earlier process, or of the controller that did this before, whose
 * pods tolerate it. As long as one does it does not begin again, whatever is uncovered later.
 */
export function phaseOf({ policy, uncovered, standing }: BootstrapInput): BootstrapState {
  if (!taints(policy)) {
    const message = "the node affinity of new pods is narrowed, and nodes are not tainted";
    return { phase: "Narrowing", reason: reasons.ArchitecturePolicyInForce, message };
  }
  if (placeOf(policy) === undefined) {
    return tainting("nodes are tainted by somebody else, and pods are made to tolerate that");
  }
  if (standing === true) return tainting("nodes are tainted with their architecture");
  const why = whyNotYet({ policy, uncovered, standing });
  return why === undefined
    ? tainting("everything tolerates it or has a verdict, so nodes are tainted with their architecture")
    : { phase: "Bootstrapping", ...why };
}

function tainting(message: string): BootstrapState {
  return { phase: "Tainting", reason: reasons.ArchitectureTainted, message };
}

function whyNotYet({
  policy: { spec, confirmed },
  uncovered,
  standing,
}: BootstrapInput): Pick<BootstrapState, "reason" | "message"> | undefined {
  const reason = reasons.ArchitectureBootstrapping;
  if (uncovered === undefined) {
    return { reason, message: "waits until all unscheduled pods and all DaemonSets have been looked at" };
  }
  if (uncovered.pods + uncovered.daemonSets > 0) {
    return { reason, message: `waits for ${uncoveredText(uncovered)}` };
  }
  if (standing === undefined) return { reason, message: "waits until all nodes have been looked at" };
  if (spec.bootstrap === "Automatic" || confirmed) return undefined;
  const message = `everything tolerates it or has a verdict; nodes are tainted once the annotation ${BOOTSTRAP_ANNOTATION} is true`;
  return { reason: reasons.ConfirmationRequired, message };
}

/** `2 pods and 1 DaemonSet that would not tolerate it: DaemonSet kube-system/cni, Pod default/web-1, …` */
function uncoveredText({ pods, daemonSets, first }: Uncovered): string {
  const parts = [
    ...(pods > 0 ? [counted(pods, "pod")] : []),
    ...(daemonSets > 0 ? [counted(daemonSets, "DaemonSet")] : []),
  ];
  const more = pods + daemonSets > first.length ? ", …" : "";
  return `${parts.join(" and ")} that would not tolerate it: ${first.join(", ")}${more}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
