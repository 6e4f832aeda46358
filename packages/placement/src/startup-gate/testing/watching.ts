/** Pods of startup gates on a real API server: what is watched of them, and whom changes wake. */
import { type KubeClient, namespaces, type Pod, pods } from "@berth/kube";
import {
  type ClusterName,
  clusterName,
  createSharedInformers,
  createSilentLogger,
  systemClock,
} from "@berth/runtime";
import type { PodBuilder, TestCluster } from "@berth/testcluster";
import type { PodQuery } from "../gate.ts";
import { PodWatches } from "../pod-watches.ts";

export const CLUSTER: ClusterName = clusterName("test");
/** The annotation that counts. */
export const READY = "gate.test/ready";

let namespaceCount = 0;

export async function aNamespace(cluster: TestCluster): Promise<string> {
  const name = `gate-observations-${++namespaceCount}`;
  await cluster.client.create(namespaces, { metadata: { name } });
  return name;
}

/** The watches of one query, in a namespace of their own. */
export interface WatchSetup extends AsyncDisposable {
  readonly namespace: string;
  readonly query: PodQuery;
  readonly client: KubeClient;
  readonly watches: PodWatches;
  readonly annotations: Set<string>;
  /** Nodes told of, in order. */
  readonly told: string[];
  readonly synced: () => number;
  /** Makes a pod, with its status. */
  create(pod: PodBuilder): Promise<Pod>;
  patch(name: string, body: object, subresource?: string): Promise<void>;
  /** Names of the pods of the query on a node; `undefined` while they are not known. */
  readonly names: (node: string, query?: PodQuery) => readonly string[] | undefined;
}

export async function watching(cluster: TestCluster): Promise<WatchSetup> {
  const namespace = await aNamespace(cluster);
  const client = cluster.connect();
  const told: string[] = [];
  const annotations = new Set([READY]);
  let synced = 0;
  const watches = new PodWatches({
    informers: createSharedInformers({ client, cluster: CLUSTER, clock: systemClock }),
    cluster: CLUSTER,
    clock: systemClock,
    log: createSilentLogger(),
    annotationKeys: () => annotations,
    onChange: (node) => void told.push(node),
    onSynced: () => void synced++,
  });
  const query = { namespace, labelSelector: "component=init" };
  const stopping = new AbortController();
  const { ended } = await watches.start(stopping.signal);
  const patch: WatchSetup["patch"] = async (name, body, subresource) => {
    const options = subresource === undefined ? {} : { subresource };
    await cluster.client.patch(pods, { namespace, name }, { type: "merge", body }, options);
  };
  return {
    namespace,
    query,
    client,
    watches,
    annotations,
    told,
    synced: () => synced,
    patch,
    async create(builder) {
      const pod = builder.in(namespace).build();
      await cluster.client.create(pods, pod, { namespace });
      const name = pod.metadata?.name ?? "";
      const body = { status: pod.status };
      const of = { namespace, name };
      return cluster.client.patch(pods, of, { type: "merge", body }, { subresource: "status" });
    },
    names: (node, of = query) =>
      watches
        .pods(of, node)
        ?.map(({ metadata }) => metadata?.name ?? "")
        .toSorted(),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
      await client.close();
    },
  };
}
