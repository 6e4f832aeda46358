/** What a plan over the whole cluster means for architecture policies: who would not tolerate a taint, and what changes. */
import type { DaemonSet, Pod } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { firstOf } from "../node/first-names.ts";
import { type BootstrapState, phaseOf, type Uncovered } from "./bootstrap.ts";
import { taintKeys } from "./compile.ts";
import { decideDaemonSet } from "./decide-daemonset.ts";
import { decidePod, isUnscheduled, podName } from "./decide-pod.ts";
import { governing } from "./govern.ts";
import type { ImageSight } from "./image-sight.ts";
import type { PodVerdict } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";

/** A pod or DaemonSet, and why it is named. */
export interface WorkloadRemark {
  /** `Pod default/web-1`, `DaemonSet kube-system/cni`. */
  readonly workload: string;
  readonly reason: Reason;
  readonly message: string;
}

export interface PolicyForecast {
  /** `cluster/default`. */
  readonly policy: string;
  readonly mode: "Taint" | "Affinity" | "Both";
  /** Where it would be once what is decided now is written. */
  readonly bootstrap: BootstrapState;
}

export interface ArchitectureForecast {
  readonly policies: readonly PolicyForecast[];
  /** Unscheduled pods and DaemonSets that were looked at. */
  readonly looked: number;
  /** Pods that would get tolerations, or be let go. */
  readonly pods: readonly string[];
  /** DaemonSets whose pod template would get tolerations: each starts a roll-out. */
  readonly daemonSets: readonly string[];
  /** What keeps nodes from being tainted, and why. */
  readonly uncovered: readonly WorkloadRemark[];
  /** Pods and DaemonSets that can run nowhere, or stay pending by policy. */
  readonly stuck: readonly WorkloadRemark[];
}

export interface ArchitectureForecastInput {
  readonly policies: ArchitecturePolicies;
  readonly pods: Iterable<Pod>;
  readonly daemonSets: Iterable<DaemonSet>;
  /** `undefined` for a namespace that is not there. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  readonly sight: ImageSight;
  /** Does some node carry the taint of this policy already, as ours or as it should be? */
  readonly standing: (rule: string) => boolean;
  readonly now: Instant;
  /** Berth's own. */
  readonly ownNamespace?: string | undefined;
}

const MAX_FIRST = 5;

/** Pure. What a verdict covers counts as covered: Berth would write it before it taints. */
export function forecastArchitecture(input: ArchitectureForecastInput): ArchitectureForecast {
  const keys = taintKeys(input.policies);
  const pods: string[] = [];
  const daemonSets: string[] = [];
  const uncovered: WorkloadRemark[] = [];
  const stuck: WorkloadRemark[] = [];
  const open = new Map<string, Set<string>>();
  let looked = 0;
  const note = (workload: string, verdict: PodVerdict, lacks: readonly string[]): void => {
    looked += 1;
    const { kind, reason, message } = verdict;
    if (kind === "impossible" || kind === "unresolvable") stuck.push({ workload, reason, message });
    if (kind !== "waiting" || lacks.length === 0) return;
    uncovered.push({ workload, reason, message });
    for (const key of lacks) open.set(key, (open.get(key) ?? new Set()).add(workload));
  };
  for (const pod of input.pods) {
    if (!isUnscheduled(pod)) continue;
    const { policy, decision } = decide(pod, keys, input);
    if (decision.patch !== undefined) pods.push(podName(pod));
    if (policy !== undefined || keys.length > 0)
      note(podName(pod), decision.verdict, decision.outcome.uncovered);
  }
  for (const daemonSet of keys.length === 0 ? [] : input.daemonSets) {
    const { namespace = "", name = "", deletionTimestamp } = daemonSet.metadata ?? {};
    if (deletionTimestamp !== undefined) continue;
    const { policies, ...common } = input;
    const labels = input.namespaceLabels(namespace);
    const view = { ...common, policies: policies.policies, daemonSet, keys, namespaceLabels: labels };
    const { patch, verdict, outcome } = decideDaemonSet(view);
    if (patch !== undefined) daemonSets.push(`DaemonSet ${namespace}/${name}`);
    note(`DaemonSet ${namespace}/${name}`, verdict, outcome.uncovered);
  }
  return {
    policies: input.policies.policies.map((policy) => ({
      policy: policy.rule,
      mode: policy.spec.mode,
      bootstrap: phaseOf({
        policy,
        uncovered: summaryOf(open.get(policy.spec.taint.key)),
        standing: input.standing(policy.rule),
      }),
    })),
    looked,
    pods: pods.toSorted(),
    daemonSets: daemonSets.toSorted(),
    uncovered: uncovered.toSorted(byWorkload),
    stuck: stuck.toSorted(byWorkload),
  };
}

function decide(
  pod: Pod,
  keys: readonly string[],
  { policies, namespaceLabels, sight, now, ownNamespace }: ArchitectureForecastInput,
) {
  const { namespace = "", labels } = pod.metadata ?? {};
  const policy = governing(
    { policies: policies.policies, ownNamespace },
    { namespace, namespaceLabels: namespaceLabels(namespace), labels },
  );
  return { policy, decision: decidePod({ pod, policy, keys, sight, now }) };
}

function summaryOf(workloads: ReadonlySet<string> | undefined): Uncovered {
  const all = workloads ?? new Set();
  let pods = 0;
  for (const workload of all) if (workload.startsWith("Pod ")) pods += 1;
  return { pods, daemonSets: all.size - pods, first: firstOf(all, MAX_FIRST) };
}

function byWorkload(a: WorkloadRemark, b: WorkloadRemark): number {
  return a.workload < b.workload ? -1 : 1;
}
