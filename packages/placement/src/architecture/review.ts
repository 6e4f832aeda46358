/** Reviews decisions when counts or image facts change: which policies taint nodes, and which workloads still wait. */

import {
  type Clock,
  type ClusterName,
  type Component,
  createLoopComponent,
  type ObjectKey,
  sleep,
  whenAborted,
} from "@berth/runtime";
import type { ImageLibrary } from "./images/image-library.ts";
import type { WorkloadObserver, WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";

interface ReviewOptions {
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly tainting: (rule: string) => boolean;
  readonly images: Pick<ImageLibrary, "subscribe">;
  /** A policy starts or stops to taint nodes: the node controller must check every node. */
  readonly onTainting: () => void;
  readonly onStatus: () => void;
  /** The decision about these workloads may differ now. */
  readonly onOpen: (keys: OpenWorkloads) => void;
  readonly cluster: ClusterName;
  readonly clock: Clock;
}

interface OpenWorkloads {
  readonly pods: readonly ObjectKey[];
  readonly daemonSets: readonly ObjectKey[];
}

export interface ArchitectureReview extends WorkloadObserver {
  readonly component: Component;
  /** Call it when counts have changed. */
  ask(): void;
}

/** Berth handles changes within this time together: facts and counts of 500 pods come in bursts. Milliseconds. */
const COALESCE_MS = 50;

/** Runs on the leader. Remembers only workloads that are not settled. */
export function createArchitectureReview(options: ReviewOptions): ArchitectureReview {
  const open = new Set<string>();
  let tainting: ReadonlySet<string> = new Set();
  let asked = Promise.withResolvers<void>();
  let hasImages = false;
  const look = (): void => {
    const rules = (options.policies()?.policies ?? []).map(({ rule }) => rule);
    const now = new Set(rules.filter(options.tainting));
    const isOther = now.symmetricDifference(tainting).size > 0;
    tainting = now;
    if (isOther) options.onTainting();
    options.onStatus();
    if (!hasImages) return;
    hasImages = false;
    options.onOpen(keysOf(open, options.cluster));
  };
  const run = async (signal: AbortSignal): Promise<void> => {
    using _subscribed = options.images.subscribe(() => {
      hasImages = true;
      asked.resolve();
    });
    while (!signal.aborted) {
      await Promise.race([asked.promise, whenAborted(signal)]);
      if (!(await sleep(options.clock, COALESCE_MS, signal))) return;
      asked = Promise.withResolvers();
      look();
    }
  };
  return {
    component: createLoopComponent({ name: "architecture-review", run }),
    ask: () => asked.resolve(),
    decided(workload: string, { phase }: WorkloadOutcome) {
      if (phase === "settled") open.delete(workload);
      else open.add(workload);
    },
    gone: (workload) => void open.delete(workload),
  };
}

/** Parses `Pod default/web-1` and `DaemonSet kube-system/cni`. */
function keysOf(workloads: Iterable<string>, cluster: ClusterName): OpenWorkloads {
  const pods: ObjectKey[] = [];
  const daemonSets: ObjectKey[] = [];
  for (const workload of workloads) {
    const [kind, namespace = "", name = ""] = workload.split(/[ /]/);
    (kind === "Pod" ? pods : daemonSets).push({ cluster, namespace, name });
  }
  return { pods, daemonSets };
}
