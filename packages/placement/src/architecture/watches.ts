import { InformerSet, type InformerSetOptions, NamespaceWatch, pick } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Change, Component, Lister } from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "../node/pod-fields.ts";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { ARCHITECTURE_GATE } from "./document.ts";
import { standingCondition } from "./pod-condition.ts";

interface ArchitectureWatchOptions
  extends Pick<
    InformerSetOptions<Pod>,
    "informers" | "consequence" | "cluster" | "clock" | "log" | "metrics" | "onSynced"
  > {
  /** Called for each version of a pod, and when it is deleted or gets a node. Must not throw. */
  readonly onPod: (pod: Pod) => void;
  /** Called when a pod differs from before. Must not throw. */
  readonly onPodChange: (change: Change<Pod>) => void;
  /** Called when the labels of a namespace change, or Berth first knows them. Must not throw. */
  readonly onNamespace: (namespace: string) => void;
}

const ALL = "all";
const BY_NAMESPACE = "namespace";
const GATED = "gated";

/** Watches the unscheduled pods of the cluster and the labels of its namespaces, while Berth needs them. */
export class ArchitectureWatches {
  readonly #pods: InformerSet<Pod>;
  readonly #namespaces: NamespaceWatch;
  readonly components: readonly Component[];
  /** The unscheduled pods; none until Berth has read them. */
  readonly pods: Pick<Lister<Pod>, "get" | "list" | "synced">;

  constructor(options: ArchitectureWatchOptions) {
    const { onPod, onPodChange, onNamespace } = options;
    const podsRead = new InformerSet<Pod>({
      ...options,
      name: "unscheduled-pods",
      resource: pods,
      onChange: onPodChange,
      // After a conflict, a patch waits for the next version, even if that version changes nothing relevant.
      onVersion: ({ object }) => onPod(object),
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

  /** Callers may use it at any time, even before the start. */
  want(needed: boolean): void {
    const scope = { fieldSelector: UNSCHEDULED };
    const indexes = {
      [BY_NAMESPACE]: ({ metadata }: Pod) => [metadata?.namespace ?? ""],
      [GATED]: (pod: Pod) => (isKeptPending(pod) ? [GATED] : []),
    };
    this.#pods.want(needed ? [{ key: ALL, scope, project: slimPod, indexes }] : []);
    this.#namespaces.want(needed);
  }

  /** Pods and namespaces are known. */
  get isRead(): boolean {
    return this.pods.synced && this.#namespaces.synced;
  }

  podsOf(namespace: string): readonly Pod[] {
    return this.#pods.get(ALL)?.byIndex(BY_NAMESPACE, namespace) ?? [];
  }

  /** Pods that Berth keeps pending; `undefined` until Berth has read them. */
  gated(): readonly Pod[] | undefined {
    return this.#pods.get(ALL)?.byIndex(GATED, GATED);
  }

  /** `null`: no namespace has this name. `undefined` until Berth has read the namespaces. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined {
    return this.#namespaces.namespaceLabels(name);
  }
}

/** Does the pod have our scheduling gate, or our condition that it can run nowhere? */
export function isKeptPending(pod: Pod): boolean {
  const gates = pod.spec?.schedulingGates ?? [];
  return gates.some(({ name }) => name === ARCHITECTURE_GATE) || standingCondition(pod) !== undefined;
}

/** Keeps only our condition. */
function slimPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const condition = standingCondition(pod);
  return {
    ...(metadata && { metadata: slimPodMetadata(metadata) }),
    ...(spec && { spec: slimPodSpec(spec) }),
    ...(status && { status: { ...pick(status, ["phase"]), ...(condition && { conditions: [condition] }) } }),
  };
}
