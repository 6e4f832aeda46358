/** How soon the status of a Workload says what its Instances are, from two watches in the benchmark. */
import { type Instance, instances, type Workload, workloads } from "@berth/fleet";
import type { KubeClient, KubeObject, Resource } from "@berth/kube";
import { isConditionTrue } from "@berth/runtime";
import { NAMESPACE } from "./fleet-stage.ts";

/** Of one placement. */
interface Version {
  /** `4/3`: four Instances exist, three of them are Ready. */
  readonly counts: string;
  /** `performance.now`, when it arrived. */
  readonly at: number;
}

export interface CountsWatch extends AsyncDisposable {
  /** From each change of the counts to the Workload that shows it or a later one, ms. */
  latencies(): readonly number[];
}

/** Watches the one Workload of the namespace and its Instances, from now on. Each placement has one deployment. */
export async function watchCounts(client: KubeClient): Promise<CountsWatch> {
  const stop = new AbortController();
  const isReady = new Map<string, Map<string, boolean>>();
  const changes = new Map<string, Version[]>();
  const shown = new Map<string, Version[]>();
  const append = (to: Map<string, Version[]>, placement: string, counts: string): void => {
    const versions = to.get(placement) ?? [];
    to.set(placement, versions);
    if (versions.at(-1)?.counts !== counts) versions.push({ counts, at: performance.now() });
  };
  const onInstance = ({ metadata, status }: Instance, isGone: boolean): void => {
    const { name = "", labels = {} } = metadata ?? {};
    const placement = labels["compute.datumapis.com/placement-name"] ?? "";
    const all = isReady.get(placement) ?? new Map<string, boolean>();
    isReady.set(placement, all);
    if (isGone) all.delete(name);
    else all.set(name, isConditionTrue(status?.conditions, "Ready"));
    append(changes, placement, `${all.size}/${[...all.values()].filter(Boolean).length}`);
  };
  const onWorkload = ({ status }: Workload): void => {
    for (const { name, replicas, readyReplicas } of status?.placements ?? [])
      append(shown, name, `${replicas}/${readyReplicas}`);
  };
  const follow = async <T extends KubeObject>(
    resource: Resource<T>,
    tell: (object: T, isGone: boolean) => void,
  ): Promise<() => Promise<void>> => {
    const { items, metadata } = await client.list(resource, { namespace: NAMESPACE });
    for (const item of items) tell(item, false);
    const { resourceVersion = "" } = metadata ?? {};
    const { signal } = stop;
    const stream = await client.watch(resource, { namespace: NAMESPACE, resourceVersion, signal });
    const read = async (): Promise<void> => {
      for await (const event of stream)
        if (event.type !== "BOOKMARK") tell(event.object, event.type === "DELETED");
    };
    const reading = read().catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    return () => reading;
  };
  const ends = [await follow(instances, onInstance), await follow(workloads, onWorkload)];
  // What was there before is no change.
  changes.clear();
  return {
    latencies: () => [...changes].flatMap(([name, all]) => latenciesOf(all, shown.get(name) ?? [])),
    async [Symbol.asyncDispose]() {
      stop.abort();
      for (const end of ends) await end();
    },
  };
}

/**
 * Of one placement. A version of the Workload shows the latest state with its counts, and with it all earlier states. So does
 * the present version when the counts are again as it has them.
 */
function latenciesOf(changes: readonly Version[], shown: readonly Version[]): readonly number[] {
  const latencies: number[] = [];
  let pending: Version[] = [];
  const showUpTo = (last: number, at: number): void => {
    latencies.push(...pending.slice(0, last + 1).map((change) => at - change.at));
    pending = pending.slice(last + 1);
  };
  const ofWorkload = new Set(shown);
  let current: Version | undefined;
  for (const version of [...changes, ...shown].toSorted((a, b) => a.at - b.at)) {
    if (ofWorkload.has(version)) {
      current = version;
      showUpTo(
        pending.findLastIndex(({ counts }) => counts === version.counts),
        version.at,
      );
      continue;
    }
    pending.push(version);
    if (current?.counts === version.counts) showUpTo(pending.length - 1, version.at);
  }
  return latencies;
}
