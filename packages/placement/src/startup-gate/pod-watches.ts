import { InformerSet, pick, type WantedInformer } from "@berth/host";
import {
  type ContainerStatus,
  type KubeClient,
  type ObjectMeta,
  type Pod,
  type PodSpec,
  pods,
} from "@berth/kube";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry, Running } from "@berth/runtime";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import type { GateSight, PodQuery } from "./gate.ts";

export interface PodWatchesOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** Annotations that any signal reads; no other is kept. Asked at each `want`. */
  readonly annotationKeys: () => Iterable<string>;
  /** What is known of the pods of this node has changed. Must not throw. */
  readonly onChange: (node: string) => void;
  /** The pods of a query have become known: every node has to be looked at. Must not throw. */
  readonly onSynced: () => void;
}

const BY_NODE = "node";

/**
 * The pods that signals look for, and of these only what signals read. Pods that no query selects are never received.
 *
 * One informer for each query, for as long as it is wanted. When another annotation is to be kept, all of them are
 * read anew, and unknown until then: what was dropped when a pod was decoded cannot be told.
 */
export class PodWatches implements Component, Pick<GateSight, "pods"> {
  readonly name = "gate-pods";
  readonly #options: PodWatchesOptions;
  readonly #informers: InformerSet<Pod>;
  #annotations: ReadonlySet<string> = new Set();
  /** Counts the sets of annotations. */
  #reading = 0;

  constructor(options: PodWatchesOptions) {
    this.#options = options;
    const { onChange, onSynced } = options;
    this.#informers = new InformerSet({
      ...options,
      name: this.name,
      resource: pods,
      onChange(change) {
        for (const node of nodesOfChange(change)) onChange(node);
      },
      onSynced,
    });
  }

  /** All queries from now on; a query that stays is not read again. At any time, also before `start`. */
  want(queries: readonly PodQuery[]): void {
    const keys = new Set(this.#options.annotationKeys());
    if (!keys.isSubsetOf(this.#annotations)) {
      this.#annotations = keys;
      this.#reading++;
    }
    const annotations = this.#annotations;
    this.#informers.want(
      queries.map(
        (query): WantedInformer<Pod> => ({
          key: this.#keyOf(query),
          scope: {
            ...(query.namespace && { namespace: query.namespace }),
            labelSelector: query.labelSelector,
          },
          project: (pod) => slimPod(pod, annotations),
          indexes: { [BY_NODE]: nodeOf },
        }),
      ),
    );
  }

  pods(query: PodQuery, node: string): readonly Pod[] | undefined {
    return this.#informers.get(this.#keyOf(query))?.byIndex(BY_NODE, node);
  }

  /** Pods held, over all queries. */
  get size(): number {
    return this.#informers.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** A query that cannot be read, with why. A lost connection is none for a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }

  /** Labels and names hold no blank at their ends, and a namespace holds none at all. */
  #keyOf({ namespace = "", labelSelector }: PodQuery): string {
    return `${this.#reading} ${namespace} ${labelSelector}`;
  }
}

/** What signals read of a pod: who made it and when, where it runs, and whether it is ready. */
function slimPod({ metadata, spec, status }: Pod, annotations: ReadonlySet<string>): Pod {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return {
    ...(metadata && { metadata: slimMetadata(metadata, annotations) }),
    // The type promises more: none of it is read.
    ...(spec && { spec: pick(spec, ["nodeName"]) as PodSpec }),
    ...(status && {
      status: {
        ...pick(status, ["phase"]),
        ...(ready && { conditions: [pick(ready, ["type", "status", "lastTransitionTime"])] }),
        ...(status.containerStatuses && { containerStatuses: status.containerStatuses.map(slimContainer) }),
      },
    }),
  };
}

function slimMetadata(metadata: ObjectMeta, annotations: ReadonlySet<string>): ObjectMeta {
  const kept = Object.entries(metadata.annotations ?? {}).filter(([key]) => annotations.has(key));
  return {
    ...pick(metadata, [
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "creationTimestamp",
      "deletionTimestamp",
      "ownerReferences",
    ]),
    ...(kept.length > 0 && { annotations: Object.fromEntries(kept) }),
  };
}

function slimContainer({ name, ready, state }: ContainerStatus): ContainerStatus {
  const { running, waiting } = state ?? {};
  return {
    name,
    ready,
    state: {
      ...(running && { running: pick(running, ["startedAt"]) }),
      ...(waiting && { waiting: pick(waiting, ["reason"]) }),
    },
  } as ContainerStatus;
}
