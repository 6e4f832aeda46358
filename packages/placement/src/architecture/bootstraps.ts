import { taintId } from "../node/mark.ts";
import { type BootstrapState, phaseOf } from "./bootstrap.ts";
import type { ArchitecturePolicies, ArchitecturePolicyInForce } from "./policy.ts";
import type { ArchitectureNodeTally, ArchitectureTally } from "./tally.ts";

export interface BootstrapSources {
  /** The policies in force; `undefined` until some source has been read. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly workloads: Pick<ArchitectureTally, "uncovered">;
  readonly nodes: Pick<ArchitectureNodeTally, "isStanding">;
  /** Has every unscheduled pod and every DaemonSet been decided about by the policies as they are now: `WorkloadPass`. */
  readonly workloadsLooked: () => boolean;
  /** Has every node been decided about since the start: `FirstPass`? */
  readonly nodesLooked: () => boolean;
}

/** Where the bootstrap of each policy is, as of what has been counted. */
export interface Bootstraps {
  /** `undefined` for a policy that is not in force. */
  state(rule: string): BootstrapState | undefined;
  /** For `bindArchitecture`. */
  tainting(rule: string): boolean;
}

export function createBootstraps(sources: BootstrapSources): Bootstraps {
  const stateOf = (policy: ArchitecturePolicyInForce): BootstrapState => {
    const { key } = policy.spec.taint;
    // What nodes carry of a key that the policy had before says nothing about this one.
    const isStanding = sources.nodes.isStanding(policy.rule, taintId(key, "NoSchedule"));
    return phaseOf({
      policy,
      uncovered: sources.workloadsLooked() ? sources.workloads.uncovered(key) : undefined,
      standing: isStanding ? true : sources.nodesLooked() ? false : undefined,
    });
  };
  const state = (rule: string): BootstrapState | undefined => {
    const policy = sources.policies()?.policies.find((it) => it.rule === rule);
    return policy && stateOf(policy);
  };
  return { state, tainting: (rule) => state(rule)?.phase === "Tainting" };
}
