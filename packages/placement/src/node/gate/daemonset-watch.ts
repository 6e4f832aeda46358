import { type DaemonSet, daemonSets, type KubeClient, type PodSpec } from "@berth/kube";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry, Running } from "@berth/runtime";
import type { GateSight } from "./gate.ts";
import { InformerSet, pick } from "./informer-set.ts";

export interface DaemonSetWatchOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** DaemonSets have become known, or one was made or deleted, or changed in what is kept. Must not throw. */
  readonly onChange: () => void;
}

const ALL = "all";

/**
 * The DaemonSets of the cluster, read while a gate needs them, and of these only where their pods belong: a rollout
 * or a change of status is no change.
 */
export class DaemonSetWatch implements Component, Pick<GateSight, "daemonSet"> {
  readonly name = "gate-daemonsets";
  readonly #cluster: ClusterName;
  readonly #informers: InformerSet<DaemonSet>;

  constructor(options: DaemonSetWatchOptions) {
    const { onChange } = options;
    this.#cluster = options.cluster;
    this.#informers = new InformerSet({
      ...options,
      resource: daemonSets,
      onChange: () => onChange(),
      onSynced: onChange,
    });
  }

  /** At any time, also before `start`. */
  want(needed: boolean): void {
    this.#informers.want(needed ? [{ key: ALL, scope: {}, project: slimDaemonSet }] : []);
  }

  daemonSet(namespace: string, name: string): DaemonSet | null | undefined {
    const informer = this.#informers.get(ALL);
    return informer && (informer.get({ cluster: this.#cluster, namespace, name }) ?? null);
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

/** Which DaemonSet it is, and what says on which nodes its pods belong. The types promise more: none of it is read. */
function slimDaemonSet({ metadata, spec }: DaemonSet): DaemonSet {
  const template = spec?.template.spec;
  return {
    ...(metadata && {
      metadata: pick(metadata, ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp"]),
    }),
    ...(spec && {
      spec: {
        selector: spec.selector,
        template: {
          ...(template && {
            spec: {
              ...pick(template, ["nodeName", "nodeSelector", "tolerations", "hostNetwork"]),
              ...(template.affinity && { affinity: pick(template.affinity, ["nodeAffinity"]) }),
            } as PodSpec,
          }),
        },
      },
    }),
  };
}
