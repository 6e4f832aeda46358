import { InformerSet, NamespaceWatch } from "@berth/host";
import { type KubeClient, type Pod, type PodStatus, pods } from "@berth/kube";
import {
  type Change,
  type Clock,
  type ClusterName,
  type Component,
  type Lister,
  type Logger,
  type MetricsRegistry,
} from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "../node/pod-fields.ts";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { ARCHITECTURE_GATE } from "./document.ts";
import { standingCondition } from "./pod-condition.ts";

export interface ArchitectureWatchOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  /** Each version of a pod, and its end: that it was deleted, or got a node. Must not throw. */
  readonly onPod: (pod: Pod) => void;
  /** What differs in a pod from before. Must not throw. */
  readonly onPodChange: (change: Change<Pod>) => void;
  /** The labels of a namespace have changed, or it is known now. Must not throw. */
  readonly onNamespace: (namespace: string) => void;
  /** Pods or namespaces have become known. Must not throw. */
  readonly onSynced: () => void;
}

const ALL = "all";
const BY_NAMESPACE = "namespace";
const GATED = "gated";

/** The unscheduled pods of the cluster, and the labels of its namespaces, read while somebody needs them. */
export class ArchitectureWatches {
  readonly #pods: InformerSet<Pod>;
  readonly #namespaces: NamespaceWatch;
  readonly components: readonly Component[];
  /** The unscheduled pods; none while they are not known. */
  readonly pods: Pick<Lister<Pod>, "get" | "list" | "synced">;

  constructor(options: ArchitectureWatchOptions) {
    const { onPod, onPodChange, onNamespace, onSynced } = options;
    const podsRead = new InformerSet<Pod>({
      ...options,
      name: "unscheduled-pods",
      resource: pods,
      onChange: onPodChange,
      // A patch that met another version waits for the next, also when that says nothing new.
      onVersion: ({ object }: Change<Pod>) => onPod(object),
      onSynced,
    });
    this.#pods = podsRead;
    this.#namespaces = new NamespaceWatch({ ...options, name: "namespaces", onChange: onNamespace });
    this.pods = {
      get: (key) => podsRead.get(ALL)?.get(key),
      list: () => podsRead.get(ALL)?.list() ?? Iterator.from<Pod>([]),
      get synced() {
        return podsRead.get(ALL) !== undefined;
      },
    };
    this.components = [this.#pods, this.#namespaces];
  }

  /** At any time, also before the start. */
  want(needed: boolean): void {
    const scope = { fieldSelector: UNSCHEDULED };
    const indexes = { [BY_NAMESPACE]: namespaceOf, [GATED]: gateOf };
    this.#pods.want(needed ? [{ key: ALL, scope, project: slimPod, indexes }] : []);
    this.#namespaces.want(needed);
  }

  podsOf(namespace: string): readonly Pod[] {
    return this.#pods.get(ALL)?.byIndex(BY_NAMESPACE, namespace) ?? [];
  }

  /** Pods that Berth keeps pending; `undefined` while they are not known. */
  gated(): readonly Pod[] | undefined {
    return this.#pods.get(ALL)?.byIndex(GATED, GATED);
  }

  /** `null`: there is none of this name. `undefined` while they are not known. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined {
    return this.#namespaces.namespaceLabels(name);
  }
}

function namespaceOf({ metadata }: Pod): readonly string[] {
  return [metadata?.namespace ?? ""];
}

function gateOf(pod: Pod): readonly string[] {
  return isKeptPending(pod) ? [GATED] : [];
}

/** Does our scheduling gate hold it, or our condition say why it can run nowhere? */
export function isKeptPending(pod: Pod): boolean {
  const gates = pod.spec?.schedulingGates ?? [];
  return gates.some(({ name }) => name === ARCHITECTURE_GATE) || standingCondition(pod) !== undefined;
}

/** Of the conditions only ours. */
export function slimPodStatus(status: PodStatus): PodStatus {
  const { phase } = status;
  const condition = standingCondition({ status });
  return { ...(phase !== undefined && { phase }), ...(condition && { conditions: [condition] }) };
}

function slimPod({ metadata, spec, status }: Pod): Pod {
  return {
    ...(metadata && { metadata: slimPodMetadata(metadata) }),
    ...(spec && { spec: slimPodSpec(spec) }),
    ...(status && { status: slimPodStatus(status) }),
  };
}
