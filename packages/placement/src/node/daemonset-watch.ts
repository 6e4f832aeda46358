import { isDeepStrictEqual } from "node:util";
import { InformerSet, type InformerSetOptions, pick } from "@berth/host";
import { type DaemonSet, type DaemonSetStatus, daemonSets, type PodSpec } from "@berth/kube";
import type { Change, ClusterName, Component, Lister, ObjectKey, Running } from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "./pod-fields.ts";

export type DaemonSetWatchOptions = Pick<
  InformerSetOptions<DaemonSet>,
  "informers" | "consequence" | "cluster" | "clock" | "log" | "metrics"
>;

/** Callbacks for changes. They must not throw. */
export interface DaemonSetListener {
  /**
   * Called after DaemonSets become known, after one is created or deleted, and when the nodes for its pods change. Not
   * called for a new image or a change of status.
   */
  readonly onChange?: () => void;
  /** Called after DaemonSets become known, before `onChange`. */
  readonly onSynced?: () => void;
  /** Called for each version of a DaemonSet, after all have become known. */
  readonly onVersion?: (change: Change<DaemonSet>) => void;
}

const ALL = "all";

/** Watches the DaemonSets of the cluster while a caller of `want` needs them. Keeps placement fields and images. */
export class DaemonSetWatch implements Component, Pick<Lister<DaemonSet>, "get" | "list" | "synced"> {
  readonly name = "daemonsets";
  readonly #cluster: ClusterName;
  readonly #informers: InformerSet<DaemonSet>;
  readonly #needs = new Set<string>();
  readonly #listeners: DaemonSetListener[] = [];

  constructor(options: DaemonSetWatchOptions) {
    const onChange = (): void => {
      for (const listener of this.#listeners) listener.onChange?.();
    };
    this.#cluster = options.cluster;
    this.#informers = new InformerSet({
      ...options,
      name: this.name,
      resource: daemonSets,
      onChange: (change) => {
        if (change.type !== "updated") onChange();
        else if (!isDeepStrictEqual(whatDecides(change.old), whatDecides(change.object))) onChange();
      },
      onVersion: (change) => {
        for (const listener of this.#listeners) listener.onVersion?.(change);
      },
      onSynced: () => {
        for (const listener of this.#listeners) listener.onSynced?.();
        onChange();
      },
    });
  }

  /** Subscribes until the process ends. */
  subscribe(listener: DaemonSetListener): void {
    this.#listeners.push(listener);
  }

  /** May be called at any time, also before `start`. @param by name of the caller, which identifies its need. */
  want(by: string, needed: boolean): void {
    if (needed) this.#needs.add(by);
    else this.#needs.delete(by);
    this.#informers.want(this.#needs.size > 0 ? [{ key: ALL, scope: {}, project: slimDaemonSet }] : []);
  }

  daemonSet(namespace: string, name: string): DaemonSet | null | undefined {
    return this.synced ? (this.get({ cluster: this.#cluster, namespace, name }) ?? null) : undefined;
  }

  get(key: ObjectKey): DaemonSet | undefined {
    return this.#informers.get(ALL)?.get(key);
  }

  /** Empty while the DaemonSets are not known. */
  list(): IterableIterator<DaemonSet> {
    return this.#informers.get(ALL)?.list() ?? Iterator.from<DaemonSet>([]);
  }

  /** Also false while no caller needs DaemonSets. */
  get synced(): boolean {
    return this.#informers.get(ALL) !== undefined;
  }

  /** Number of DaemonSets in memory. */
  get size(): number {
    return this.#informers.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** Why DaemonSets cannot be read. A lost connection counts as a problem only after a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }
}

/**
 * Keeps identity, placement fields, images and the number of ready pods. The type promises more fields, but callers
 * must not read them.
 */
function slimDaemonSet({ metadata, spec, status }: DaemonSet): DaemonSet {
  return {
    ...(metadata && { metadata: { ...slimPodMetadata(metadata), ...pick(metadata, ["generation"]) } }),
    ...(status && { status: pick(status, ["numberReady"]) as DaemonSetStatus }),
    ...(spec && {
      spec: {
        selector: spec.selector,
        template: {
          ...(spec.template.metadata && { metadata: slimPodMetadata(spec.template.metadata) }),
          ...(spec.template.spec && { spec: slimPodSpec(spec.template.spec) }),
        },
      },
    }),
  };
}

/** The kept fields that decide which nodes get a pod of the DaemonSet. */
function whatDecides({ metadata, spec }: DaemonSet): unknown {
  const template: Partial<PodSpec> = spec?.template.spec ?? {};
  const { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName } = template;
  return [
    metadata && pick(metadata, ["uid", "deletionTimestamp"]),
    spec?.selector,
    { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName },
  ];
}
