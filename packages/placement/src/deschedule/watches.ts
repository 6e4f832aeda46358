/** What Berth reads for descheduling, while a policy is in force: pods that have not ended, and labels of namespaces. */
import { InformerSet, type InformerSetOptions, NamespaceWatch } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Change, Component, IndexFunction, Informer, ObjectKey } from "@berth/runtime";
import { nodeOf } from "../node/pod-nodes.ts";
import type { Ground } from "./fit.ts";
import { EVERYWHERE, forbiddenNamespace } from "./fit-topology.ts";
import { ownerOf } from "./ledger.ts";
import { podProjection } from "./pod-fields.ts";

interface DescheduleWatchOptions
  extends Pick<
    InformerSetOptions<Pod>,
    "informers" | "consequence" | "cluster" | "clock" | "log" | "metrics"
  > {
  /** Called when a pod differs from before. Must not throw. */
  readonly onPod: (change: Change<Pod>) => void;
  /** Called when the labels of a namespace change. Must not throw. */
  readonly onNamespace: (namespace: string) => void;
  /** Called when pods or namespaces are known for the first time. Must not throw. */
  readonly onSynced: () => void;
}

const ALL = "all";
const BY_NODE = "node";
const BY_OWNER = "owner";
const FORBIDDING = "forbidding";
export const podIndexes: Readonly<Record<string, IndexFunction<Pod>>> = {
  [BY_NODE]: nodeOf,
  [BY_OWNER]: (pod) => [ownerOf(pod)],
  [FORBIDDING]: (pod) => [forbiddenNamespace(pod) ?? []].flat(),
};
/** Field selector of pods that have not ended. */
export const RUNNING = "status.phase!=Succeeded,status.phase!=Failed";

export class DescheduleWatches {
  readonly #pods: InformerSet<Pod>;
  readonly #namespaces: NamespaceWatch;
  readonly components: readonly Component[];

  constructor(options: DescheduleWatchOptions) {
    this.#pods = new InformerSet<Pod>({
      ...options,
      name: "deschedule-pods",
      resource: pods,
      onChange: options.onPod,
    });
    this.#namespaces = new NamespaceWatch({
      ...options,
      name: "deschedule-namespaces",
      onChange: options.onNamespace,
    });
    this.components = [this.#pods, this.#namespaces];
  }

  want(needed: boolean): void {
    const scope = { fieldSelector: RUNNING };
    const wanted = { key: ALL, scope, project: podProjection(), indexes: podIndexes };
    this.#pods.want(needed ? [wanted] : []);
    this.#namespaces.want(needed);
  }

  get synced(): boolean {
    return this.#informer !== undefined;
  }

  /** Pods and namespaces are known. */
  get isRead(): boolean {
    return this.synced && this.#namespaces.synced;
  }

  /** What a lookup reads, beside the nodes. */
  ground(nodes: Ground["nodes"]): Ground {
    return {
      nodes,
      podsOn: (node) => this.podsOn(node),
      namespaceLabels: (name) => this.namespaceLabels(name) ?? undefined,
      forbidding: (namespace) => this.forbidding(namespace),
    };
  }

  get(key: ObjectKey): Pod | undefined {
    return this.#informer?.get(key);
  }

  list(): Iterable<Pod> {
    return this.#informer?.list() ?? [];
  }

  podsOn(node: string): readonly Pod[] {
    return this.#informer?.byIndex(BY_NODE, node) ?? [];
  }

  podsOf(owner: string): readonly Pod[] {
    return this.#informer?.byIndex(BY_OWNER, owner) ?? [];
  }

  /** See `Ground.forbidding`. */
  forbidding(namespace: string): readonly Pod[] {
    return [EVERYWHERE, namespace].flatMap((it) => this.#informer?.byIndex(FORBIDDING, it) ?? []);
  }

  /** Reads all pods. Labels of namespaces change too rarely for an index. */
  podsIn(namespace: string): readonly Pod[] {
    return Array.from(this.list()).filter(({ metadata }) => metadata?.namespace === namespace);
  }

  /** `null`: no namespace has this name. `undefined`: not known yet. */
  namespaceLabels(name: string): Readonly<Record<string, string>> | null | undefined {
    return this.#namespaces.namespaceLabels(name);
  }

  /** Why pods or namespaces cannot be read. A lost connection counts only after a minute. */
  problem(): string | undefined {
    return this.#pods.problem() ?? this.#namespaces.problem();
  }

  get #informer(): Informer<Pod> | undefined {
    return this.#pods.get(ALL);
  }
}
