/** When a policy may begin to taint nodes: what would be kept away from them must not be surprised. */
import { counted } from "@berth/host";
import { type Reason, reasons } from "../api/reasons.ts";
import { taintId } from "../node/mark.ts";
import { placeOf } from "./compile.ts";
import { type ArchitecturePolicyStatus, BOOTSTRAP_ANNOTATION } from "./document.ts";
import { type ArchitecturePolicies, type ArchitecturePolicyInForce, taints } from "./policy.ts";
import type { ArchitectureNodeTally, ArchitectureTally, Uncovered } from "./tally.ts";

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
  const tainting = (message: string): BootstrapState => {
    return { phase: "Tainting", reason: reasons.ArchitectureTainted, message };
  };
  const waits = (message: string, reason: Reason = reasons.ArchitectureBootstrapping): BootstrapState => {
    return { phase: "Bootstrapping", reason, message };
  };
  if (placeOf(policy) === undefined) {
    return tainting("nodes are tainted by somebody else, and pods are made to tolerate that");
  }
  if (standing === true) return tainting("nodes are tainted with their architecture");
  if (uncovered === undefined)
    return waits("waits until all unscheduled pods and all DaemonSets have been looked at");
  if (uncovered.pods + uncovered.daemonSets > 0) return waits(`waits for ${uncoveredText(uncovered)}`);
  if (standing === undefined) return waits("waits until all nodes have been looked at");
  const known = "everything tolerates it or has a verdict";
  if (policy.spec.bootstrap === "Automatic" || policy.confirmed)
    return tainting(`${known}, so nodes are tainted with their architecture`);
  const message = `${known}; nodes are tainted once the annotation ${BOOTSTRAP_ANNOTATION} is true`;
  return waits(message, reasons.ConfirmationRequired);
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

interface BootstrapSources {
  /** The policies in force; `undefined` until some source has been read. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly workloads: Pick<ArchitectureTally, "uncovered">;
  readonly nodes: Pick<ArchitectureNodeTally, "isStanding">;
  /** Has every unscheduled pod and every DaemonSet been decided about by the policies as they are now: `WorkloadPass`. */
  readonly workloadsLooked: () => boolean;
  /** Has every node been decided about since the start: `FirstPass`? */
  readonly nodesLooked: () => boolean;
}

/** Where the bootstrap of each policy is, as of what has been counted; `undefined` for one that is not in force. */
export function createBootstraps(sources: BootstrapSources): {
  state(rule: string): BootstrapState | undefined;
  tainting(rule: string): boolean;
} {
  const state = (rule: string): BootstrapState | undefined => {
    const policy = sources.policies()?.policies.find((it) => it.rule === rule);
    if (policy === undefined) return undefined;
    const { key } = policy.spec.taint;
    const uncovered = sources.workloadsLooked() ? sources.workloads.uncovered(key) : undefined;
    // What nodes carry of a key that the policy had before says nothing about this one.
    const isStanding = sources.nodes.isStanding(rule, taintId(key, "NoSchedule"));
    return phaseOf({
      policy,
      uncovered,
      standing: isStanding || (sources.nodesLooked() ? false : undefined),
    });
  };
  return { state, tainting: (rule) => state(rule)?.phase === "Tainting" };
}
