/** The agents of footprints as they run: on how many of the nodes that need one it is ready. */

import { InformerSet, pick } from "@berth/host";
import { type DaemonSet, type KubeClient, type Pod, type PodSpec, pods } from "@berth/kube";
import { daemonSetQuery, type Footprint } from "@berth/placement";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry, Running } from "@berth/runtime";

export interface FootprintAgentsOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  /** `null`: there is none of this name. `undefined`: not known yet. */
  readonly daemonSet: (namespace: string, name: string) => DaemonSet | null | undefined;
  /** A pod of some agent became ready or ceased to be, or the pods have become known. Must not throw. */
  readonly onChange: () => void;
}

/** Of which agent, if any. */
export type WithAgent = Pick<Footprint, "agent">;

const READY_ON = "ready-on";

/** The pods of the agents' DaemonSets, by their own selectors, and of each only whether it is ready. */
export class FootprintAgents implements Component {
  readonly name = "footprint-agents";
  readonly #options: FootprintAgentsOptions;
  readonly #informers: InformerSet<Pod>;

  constructor(options: FootprintAgentsOptions) {
    this.#options = options;
    this.#informers = new InformerSet<Pod>({
      ...options,
      name: "footprint-agents",
      resource: pods,
      onChange: () => options.onChange(),
      onSynced: () => options.onChange(),
    });
  }

  /** All footprints from now on, and again when DaemonSets have changed. At any time, also before `start`. */
  want(footprints: readonly WithAgent[]): void {
    const queries = footprints.flatMap((footprint) => this.#queryOf(footprint));
    const indexes = { [READY_ON]: readyOn };
    const wanted = queries.map((scope) => ({ key: keyOf(scope), scope, project: slimPod, indexes }));
    this.#informers.want([...new Map(wanted.map((it) => [it.key, it])).values()]);
  }

  /** How many of these nodes have a ready pod of the agent; `undefined` while that is not known. */
  readyOn(footprint: WithAgent, nodes: Iterable<string>): number | undefined {
    const { agent } = footprint;
    const daemonSet = agent && this.#options.daemonSet(agent.namespace, agent.name);
    if (daemonSet === null) return 0;
    const [query] = this.#queryOf(footprint);
    const informer = query && this.#informers.get(keyOf(query));
    if (informer === undefined) return undefined;
    const uid = daemonSet?.metadata?.uid;
    let ready = 0;
    for (const node of nodes)
      if (informer.byIndex(READY_ON, node).some((pod) => isMadeBy(pod, uid))) ready += 1;
    return ready;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** Why they cannot be read. A lost connection is no problem for a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }

  #queryOf({ agent }: WithAgent): ReturnType<typeof daemonSetQuery> {
    if (agent === undefined || agent.nodeSelector === "Off") return [];
    return daemonSetQuery(this.#options.daemonSet(agent.namespace, agent.name));
  }
}

function keyOf({ namespace = "", labelSelector }: ReturnType<typeof daemonSetQuery>[number]): string {
  return `${namespace} ${labelSelector}`;
}

function readyOn({ metadata, spec, status }: Pod): readonly string[] {
  if (metadata?.deletionTimestamp !== undefined || !spec?.nodeName) return [];
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True")
    ? [spec.nodeName]
    : [];
}

function isMadeBy({ metadata }: Pod, uid: string | undefined): boolean {
  return metadata?.ownerReferences?.some((it) => it.controller === true && it.uid === uid) ?? false;
}

/** Who made it, where it runs and whether it is ready. The types promise more: none of it is read. */
function slimPod({ metadata = {}, spec, status }: Pod): Pod {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return {
    metadata: pick(metadata, [
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "deletionTimestamp",
      "ownerReferences",
    ]),
    spec: { nodeName: spec?.nodeName } as PodSpec,
    status: { conditions: ready ? [pick(ready, ["type", "status"])] : [] },
  };
}
