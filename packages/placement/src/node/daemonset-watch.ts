import { isDeepStrictEqual } from "node:util";
import { InformerSet, type InformerSetOptions, pick } from "@berth/host";
import { type DaemonSet, type DaemonSetStatus, daemonSets, type PodSpec } from "@berth/kube";
import type { Change, ClusterName, Component, Lister, ObjectKey, Running } from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "./pod-fields.ts";

export type DaemonSetWatchOptions = Pick<
  InformerSetOptions<DaemonSet>,
  "client" | "cluster" | "clock" | "log" | "metrics"
>;

/** Who wants to know of changes. None may throw. */
export interface DaemonSetListener {
  /**
   * DaemonSets have become known, or one was made or deleted, or its pods belong elsewhere now: a rollout of another image
   * or a change of status is no change.
   */
  readonly onChange?: () => void;
  /** They have become known. Told before `onChange`. */
  readonly onSynced?: () => void;
  /** Each version of one, after all have become known. */
  readonly onVersion?: (change: Change<DaemonSet>) => void;
}

const ALL = "all";

/** The DaemonSets of the cluster, read while somebody needs them: where their pods belong, and which images they run. */
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

  /** For as long as the process runs. */
  subscribe(listener: DaemonSetListener): void {
    this.#listeners.push(listener);
  }

  /** At any time, also before `start`. @param by who needs them, or no longer does. */
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

  /** None while they are not known. */
  list(): IterableIterator<DaemonSet> {
    return this.#informers.get(ALL)?.list() ?? Iterator.from<DaemonSet>([]);
  }

  /** False also while nobody needs them. */
  get synced(): boolean {
    return this.#informers.get(ALL) !== undefined;
  }

  /** DaemonSets held. */
  get size(): number {
    return this.#informers.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** Why they cannot be read. A lost connection is no problem for a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }
}

/**
 * Which DaemonSet it is, where its pods belong, which images they run, and how many are ready. The types promise more: none
 * of it is read.
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

/** What, of all that is kept, decides on which nodes the pods of a DaemonSet belong. */
function whatDecides({ metadata, spec }: DaemonSet): unknown {
  const template: Partial<PodSpec> = spec?.template.spec ?? {};
  const { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName } = template;
  return [
    metadata && pick(metadata, ["uid", "deletionTimestamp"]),
    spec?.selector,
    { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName },
  ];
}
