import { type KubeClient, type Namespace, namespaces } from "@berth/kube";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry, Running } from "@berth/runtime";
import { InformerSet, pick } from "./informer-set.ts";

export interface NamespaceWatchOptions {
  /** Of the component, and in metrics of its informer: others of the process read namespaces as well. */
  readonly name: string;
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** A namespace is new, is gone, or has other labels. Must not throw. */
  readonly onChange: (namespace: string) => void;
  /** They have become known. Must not throw. */
  readonly onSynced: () => void;
}

const ALL = "all";

/** The labels of the namespaces, read while somebody needs them. */
export class NamespaceWatch implements Component {
  readonly name: string;
  readonly #cluster: ClusterName;
  readonly #informers: InformerSet<Namespace>;

  constructor(options: NamespaceWatchOptions) {
    this.name = options.name;
    this.#cluster = options.cluster;
    this.#informers = new InformerSet<Namespace>({
      ...options,
      resource: namespaces,
      onChange: ({ object }) => options.onChange(object.metadata?.name ?? ""),
    });
  }

  /** At any time, also before `start`. */
  want(needed: boolean): void {
    this.#informers.want(needed ? [{ key: ALL, scope: {}, metadataOnly: true, project: slimNamespace }] : []);
  }

  /** `null`: there is none of this name. `undefined` while they are not known. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined {
    const informer = this.#informers.get(ALL);
    if (informer === undefined) return undefined;
    const found = informer.get({ cluster: this.#cluster, namespace: "", name });
    return found === undefined ? null : (found.metadata?.labels ?? {});
  }

  /** Namespaces held. */
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

function slimNamespace({ metadata }: Namespace): Namespace {
  return { metadata: pick(metadata ?? {}, ["name", "uid", "resourceVersion", "labels"]) };
}
