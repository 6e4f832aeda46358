import { InformerSet, type InformerSetOptions, NamespaceWatch, pick } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Change, Component, Lister } from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "../node/pod-fields.ts";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { ARCHITECTURE_GATE } from "./document.ts";
import { standingCondition } from "./pod-condition.ts";

interface ArchitectureWatchOptions
  extends Pick<InformerSetOptions<Pod>, "client" | "cluster" | "clock" | "log" | "metrics" | "onSynced"> {
  /** Each version of a pod, and its end: that it was deleted, or got a node. Must not throw. */
  readonly onPod: (pod: Pod) => void;
  /** What differs in a pod from before. Must not throw. */
  readonly onPodChange: (change: Change<Pod>) => void;
  /** The labels of a namespace have changed, or it is known now. Must not throw. */
  readonly onNamespace: (namespace: string) => void;
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
    const { onPod, onPodChange, onNamespace } = options;
    const podsRead = new InformerSet<Pod>({
      ...options,
      name: "unscheduled-pods",
      resource: pods,
      onChange: onPodChange,
      // A patch that met another version waits for the next, also when that says nothing new.
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

  /** At any time, also before the start. */
  want(needed: boolean): void {
    const scope = { fieldSelector: UNSCHEDULED };
    const indexes = {
      [BY_NAMESPACE]: ({ metadata }: Pod) => [metadata?.namespace ?? ""],
      [GATED]: (pod: Pod) => (isKeptPending(pod) ? [GATED] : []),
    };
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

/** Does our scheduling gate hold it, or our condition say why it can run nowhere? */
export function isKeptPending(pod: Pod): boolean {
  const gates = pod.spec?.schedulingGates ?? [];
  return gates.some(({ name }) => name === ARCHITECTURE_GATE) || standingCondition(pod) !== undefined;
}

/** Of the conditions only ours. */
function slimPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod;
  const condition = standingCondition(pod);
  return {
    ...(metadata && { metadata: slimPodMetadata(metadata) }),
    ...(spec && { spec: slimPodSpec(spec) }),
    ...(status && { status: { ...pick(status, ["phase"]), ...(condition && { conditions: [condition] }) } }),
  };
}
