/** Forecasts the effect of architecture policies on the cluster, for `plan`: uncovered workloads, and changes. */
import type { DaemonSet, Pod } from "@berth/kube";
import type { Reason } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { type BootstrapState, phaseOf } from "./bootstrap.ts";
import { taintKeys } from "./compile.ts";
import { decideDaemonSet } from "./decide-daemonset.ts";
import { decidePod, isUnscheduled, podName } from "./decide-pod.ts";
import { type GovernContext, governing } from "./govern.ts";
import type { ImageObservations } from "./image-observations.ts";
import type { PodVerdict } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { summaryOf } from "./tally.ts";

/** A pod or DaemonSet, and why the forecast names it. */
export interface WorkloadRemark {
  /** `Pod default/web-1`, `DaemonSet kube-system/cni`. */
  readonly workload: string;
  readonly reason: Reason;
  readonly message: string;
}

export interface ArchitectureForecast {
  readonly policies: readonly {
    /** `cluster/default`. */
    readonly policy: string;
    readonly mode: "Taint" | "Affinity" | "Both";
    /** The bootstrap state after Berth has written its current decisions. */
    readonly bootstrap: BootstrapState;
  }[];
  /** Number of unscheduled pods and DaemonSets in the forecast. */
  readonly looked: number;
  /** Pods that would get tolerations, or that Berth would release. */
  readonly pods: readonly string[];
  /** DaemonSets whose pod template would get tolerations: each starts a roll-out. */
  readonly daemonSets: readonly string[];
  /** Workloads that keep Berth from tainting nodes, and why. */
  readonly uncovered: readonly WorkloadRemark[];
  /** Pods and DaemonSets that can run nowhere, or stay pending by policy. */
  readonly stuck: readonly WorkloadRemark[];
}

interface ArchitectureForecastInput extends Pick<GovernContext, "ownNamespace"> {
  readonly policies: ArchitecturePolicies;
  readonly pods: Iterable<Pod>;
  readonly daemonSets: Iterable<DaemonSet>;
  /** `undefined` for a namespace that does not exist. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  readonly observations: ImageObservations;
  /** Does a node carry the taint of this policy already, as Berth's own or with the right value? */
  readonly standing: (rule: string) => boolean;
  readonly now: Instant;
}

/** Pure. A workload with a verdict counts as covered: Berth writes its tolerations before it taints nodes. */
export function forecastArchitecture(input: ArchitectureForecastInput): ArchitectureForecast {
  const { policies, namespaceLabels, observations, now, ownNamespace } = input;
  const context = { policies: policies.policies, ownNamespace };
  const keys = taintKeys(policies);
  const pods: string[] = [];
  const daemonSets: string[] = [];
  const uncovered: WorkloadRemark[] = [];
  const stuck: WorkloadRemark[] = [];
  const open = new Map<string, Set<string>>();
  let looked = 0;
  const note = (workload: string, { kind, reason, message }: PodVerdict, lacks: readonly string[]): void => {
    looked += 1;
    if (kind === "impossible" || kind === "unresolvable") stuck.push({ workload, reason, message });
    if (kind !== "waiting" || lacks.length === 0) return;
    uncovered.push({ workload, reason, message });
    for (const key of lacks) open.set(key, (open.get(key) ?? new Set()).add(workload));
  };
  for (const pod of input.pods) {
    if (!isUnscheduled(pod)) continue;
    const { namespace = "", labels } = pod.metadata ?? {};
    const policy = governing(context, { namespace, namespaceLabels: namespaceLabels(namespace), labels });
    const { patch, verdict, outcome } = decidePod({ pod, policy, keys, observations, now });
    if (patch !== undefined) pods.push(podName(pod));
    if (policy !== undefined || keys.length > 0) note(podName(pod), verdict, outcome.uncovered);
  }
  for (const daemonSet of keys.length === 0 ? [] : input.daemonSets) {
    const { namespace = "", name = "", deletionTimestamp } = daemonSet.metadata ?? {};
    if (deletionTimestamp !== undefined) continue;
    const seen = { namespaceLabels: namespaceLabels(namespace), observations, now };
    const { patch, verdict, outcome } = decideDaemonSet({ ...context, ...seen, daemonSet, keys });
    if (patch !== undefined) daemonSets.push(`DaemonSet ${namespace}/${name}`);
    note(`DaemonSet ${namespace}/${name}`, verdict, outcome.uncovered);
  }
  return {
    policies: policies.policies.map((policy) => {
      const standing = input.standing(policy.rule);
      const lacking = summaryOf(open.get(policy.spec.taint.key) ?? new Set());
      const bootstrap = phaseOf({ policy, uncovered: lacking, standing });
      return { policy: policy.rule, mode: policy.spec.mode, bootstrap };
    }),
    looked,
    pods: pods.toSorted(),
    daemonSets: daemonSets.toSorted(),
    uncovered: uncovered.toSorted(byWorkload),
    stuck: stuck.toSorted(byWorkload),
  };
}

function byWorkload(a: WorkloadRemark, b: WorkloadRemark): number {
  return a.workload < b.workload ? -1 : 1;
}
