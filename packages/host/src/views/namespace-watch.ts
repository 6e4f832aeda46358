import { type Namespace, namespaces } from "@berth/kube";
import type {
  Clock,
  ClusterName,
  Component,
  Logger,
  MetricsRegistry,
  Running,
  SharedInformers,
} from "@berth/runtime";
import { InformerSet, pick } from "./informer-set.ts";

export interface NamespaceWatchOptions {
  /** Name of the component and of its informer in metrics: other informers of the process read namespaces too. */
  readonly name: string;
  readonly informers: SharedInformers;
  /** See `InformerRequest.consequence`. */
  readonly consequence?: string;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** A namespace is new, is gone, or has other labels. Must not throw. */
  readonly onChange: (namespace: string) => void;
  /** The labels are known now. Must not throw. */
  readonly onSynced: () => void;
}

const ALL = "all";

/** The labels of all namespaces, read while they are needed. */
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

  /** May be called at any time, also before `start`. */
  want(needed: boolean): void {
    this.#informers.want(needed ? [{ key: ALL, scope: {}, metadataOnly: true, project: slimNamespace }] : []);
  }

  /** `null`: no namespace has this name. `undefined` while the labels are not known. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined {
    const informer = this.#informers.get(ALL);
    if (informer === undefined) return undefined;
    const found = informer.get({ cluster: this.#cluster, namespace: "", name });
    return found === undefined ? null : (found.metadata?.labels ?? {});
  }

  get synced(): boolean {
    return this.#informers.get(ALL) !== undefined;
  }

  /** Number of namespaces in memory. */
  get size(): number {
    return this.#informers.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** Why the labels cannot be read. A lost connection counts only after a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }
}

function slimNamespace({ metadata }: Namespace): Namespace {
  return { metadata: pick(metadata ?? {}, ["name", "uid", "resourceVersion", "labels"]) };
}
