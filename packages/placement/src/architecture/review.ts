/** Looks again where counts, or what is known of images, have changed: whether nodes are tainted, who waits for what. */

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
  /** Nodes are to be tainted from now on, or no longer: every node has to be looked at. */
  readonly onTainting: () => void;
  readonly onStatus: () => void;
  /** These may be decided otherwise now. */
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
  /** Counts have changed. */
  ask(): void;
}

/** Changes within this time are one look: facts of the images of 500 pods, or the counts of these, come in bursts. Milliseconds. */
const COALESCE_MS = 50;

/** Runs where this replica leads. Remembers workloads that are not settled: as many as there are of them. */
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

/** From `Pod default/web-1` and `DaemonSet kube-system/cni`. */
function keysOf(workloads: Iterable<string>, cluster: ClusterName): OpenWorkloads {
  const pods: ObjectKey[] = [];
  const daemonSets: ObjectKey[] = [];
  for (const workload of workloads) {
    const [kind, namespace = "", name = ""] = workload.split(/[ /]/);
    (kind === "Pod" ? pods : daemonSets).push({ cluster, namespace, name });
  }
  return { pods, daemonSets };
}
