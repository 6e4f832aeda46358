import { type FieldMask, InformerSet, keepFields } from "@berth/host";
import { type KubeClient, type Pod, type Projection, pods } from "@berth/kube";
import type { Component, MetricsRegistry, Running } from "@berth/runtime";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import type { NodeHost } from "../node/wired.ts";
import type { GateSight, PodQuery } from "./gate.ts";

export interface PodWatchesOptions extends Pick<NodeHost, "cluster" | "clock" | "log"> {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly metrics?: MetricsRegistry;
  /** Annotations that any signal reads; no other is kept. Asked at each `want`. */
  readonly annotationKeys: () => Iterable<string>;
  /** What is known of the pods of this node has changed. Must not throw. */
  readonly onChange: (node: string) => void;
  /** The pods of a query have become known: every node has to be looked at. Must not throw. */
  readonly onSynced: () => void;
}

/**
 * The pods that signals look for, and of these only what signals read: one informer for each query, while it is wanted.
 * When another annotation is to be kept, all of them are read anew, and unknown until then: what was dropped when a pod
 * was decoded cannot be told.
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
    const shared = { project: keepPod(this.#annotations), indexes: { node: nodeOf } };
    this.#informers.want(queries.map((scope) => ({ key: this.#keyOf(scope), scope, ...shared })));
  }

  pods(query: PodQuery, node: string): readonly Pod[] | undefined {
    return this.#informers.get(this.#keyOf(query))?.byIndex("node", node);
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

  #keyOf({ namespace = "", labelSelector }: PodQuery): string {
    return `${this.#reading} ${namespace} ${labelSelector}`;
  }
}

/** What signals read of a pod: who made it and when, where it runs, and whether it is ready. */
const podFields: FieldMask = [
  "metadata.annotations",
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.nodeName",
  "status.phase",
  "status.conditions[].type",
  "status.conditions[].status",
  "status.conditions[].lastTransitionTime",
  "status.containerStatuses[].name",
  "status.containerStatuses[].ready",
  "status.containerStatuses[].state.running.startedAt",
  "status.containerStatuses[].state.waiting.reason",
];

function keepPod(annotations: ReadonlySet<string>): Projection<Pod> {
  const keep = keepFields<Pod>(podFields);
  return ({ metadata, status, ...pod }) => {
    const kept = Object.entries(metadata?.annotations ?? {}).filter(([key]) => annotations.has(key));
    const whole = { ...metadata, annotations: Object.fromEntries(kept) };
    const conditions = status?.conditions?.filter(({ type }) => type === "Ready") ?? [];
    return keep({ ...pod, metadata: whole, status: { ...status, conditions } });
  };
}
