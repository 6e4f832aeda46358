/** Decides when a policy may begin to taint nodes, so that a new taint keeps off no workload by surprise. */
import { counted } from "@berth/host";
import { type Reason, reasons } from "../api/reasons.ts";
import { taintId } from "../node/mark.ts";
import { placeOf } from "./compile.ts";
import { BOOTSTRAP_ANNOTATION } from "./document.ts";
import { type ArchitecturePolicies, type ArchitecturePolicyInForce, taints } from "./policy.ts";
import type { ArchitecturePolicyStatus } from "./resource.ts";
import type { ArchitectureNodeTally, ArchitectureTally, Uncovered } from "./tally.ts";

export interface BootstrapInput {
  readonly policy: ArchitecturePolicyInForce;
  /** `undefined` until every unscheduled pod and every DaemonSet of the cluster has been looked at. */
  readonly uncovered: Uncovered | undefined;
  /**
   * Does a node that the policy selects carry the taint as Berth's own, or with the right value at the original key?
   * `undefined` until Berth has found such a node, or has checked every node.
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
 * Pure. A bootstrap ends once all workloads are covered and, if the policy asks for it, the user has confirmed. It does
 * not begin while a node carries the taint, even if workloads become uncovered later. An earlier process, or the
 * controller that did this before, set that taint, and its pods tolerate it.
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
    return tainting("another writer taints the nodes, and Berth makes pods tolerate that");
  }
  if (standing === true) return tainting("nodes are tainted with their architecture");
  if (uncovered === undefined)
    return waits("waits until Berth has checked all unscheduled pods and all DaemonSets");
  if (uncovered.pods + uncovered.daemonSets > 0) return waits(`waits for ${uncoveredText(uncovered)}`);
  if (standing === undefined) return waits("waits until Berth has checked all nodes");
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
  /** Has Berth decided about every unscheduled pod and DaemonSet by the current policies? */
  readonly workloadsLooked: () => boolean;
  /** Has Berth decided about every node since the start? */
  readonly nodesLooked: () => boolean;
}

export interface Bootstraps {
  /** `key`: of its taint. `undefined` for a policy that is not in force. */
  state(rule: string): (BootstrapState & { readonly key: string }) | undefined;
  tainting(rule: string): boolean;
}

/** The bootstrap state of each policy, from the counts. */
export function createBootstraps(sources: BootstrapSources): Bootstraps {
  const state: Bootstraps["state"] = (rule) => {
    const policy = sources.policies()?.policies.find((it) => it.rule === rule);
    if (policy === undefined) return undefined;
    const { key } = policy.spec.taint;
    const uncovered = sources.workloadsLooked() ? sources.workloads.uncovered(key) : undefined;
    // A taint with a former key of the policy says nothing about the current key.
    const isStanding = sources.nodes.isStanding(rule, taintId(key, "NoSchedule"));
    const standing = isStanding || (sources.nodesLooked() ? false : undefined);
    return { ...phaseOf({ policy, uncovered, standing }), key };
  };
  return { state, tainting: (rule) => state(rule)?.phase === "Tainting" };
}
