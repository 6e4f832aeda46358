import { type FieldMask, InformerSet, type InformerSetOptions, keepFields } from "@berth/host";
import { type Pod, type Projection, pods } from "@berth/kube";
import type { Component, MetricsRegistry, Running } from "@berth/runtime";
import { nodeOf, nodesOfChange } from "../node/pod-nodes.ts";
import type { GateObservations, PodQuery } from "./gate.ts";

export interface PodWatchesOptions
  extends Pick<InformerSetOptions<Pod>, "informers" | "consequence" | "cluster" | "clock" | "log"> {
  readonly metrics?: MetricsRegistry;
  /** Annotations that signals read; the watch drops all others. Called at each `want`. */
  readonly annotationKeys: () => Iterable<string>;
  /** The known pods of this node have changed. Must not throw. */
  readonly onChange: (node: string) => void;
  /** The pods of a query have been read, so every node must be checked. Must not throw. */
  readonly onSynced: () => void;
}

/**
 * Watches the pods that signals need, and keeps only the fields that signals read: one informer for each wanted query.
 * If signals need another annotation, it reads all pods anew, because the decoder has dropped that annotation. Until
 * then the pods are unknown.
 */
export class PodWatches implements Component, Pick<GateObservations, "pods"> {
  readonly name = "gate-pods";
  readonly #options: PodWatchesOptions;
  readonly #informers: InformerSet<Pod>;
  #annotations: ReadonlySet<string> = new Set();
  /** Number of the current set of annotations. */
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

  /** Sets all queries; it does not read an existing query again. Can be called at any time, also before `start`. */
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

  /** Number of pods in memory, over all queries. */
  get size(): number {
    return this.#informers.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** A query that cannot be read, with the reason. A lost connection counts only after a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }

  #keyOf({ namespace = "", labelSelector }: PodQuery): string {
    return `${this.#reading} ${namespace} ${labelSelector}`;
  }
}

/** Fields of a pod that signals read: its owner, creation time, node and readiness. */
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
