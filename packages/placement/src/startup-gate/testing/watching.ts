/** Pods of startup gates on a real API server: what is watched of them, and whom changes wake. */
import { createViews, type View } from "@berth/host";
import { type KubeClient, namespaces, type Pod, pods } from "@berth/kube";
import {
  type ClusterName,
  clusterName,
  createSharedInformers,
  createSilentLogger,
  systemClock,
} from "@berth/runtime";
import type { PodBuilder, TestCluster } from "@berth/testcluster";
import { compileGates } from "../compile.ts";
import { startupGateSpec } from "../document.ts";
import type { Gates, PodQuery } from "../gate.ts";
import { gateConcerns, gateReads } from "../reads.ts";

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
  readonly view: View<Pod>;
  /** Sets the queries, for gates that read these annotations. */
  want(queries: readonly PodQuery[], annotations?: readonly string[]): void;
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
  let synced = 0;
  const views = createViews(gateReads, {
    informers: createSharedInformers({ client, cluster: CLUSTER, clock: systemClock }),
    cluster: CLUSTER,
    clock: systemClock,
    log: createSilentLogger(),
    concerns: gateConcerns,
    onKeys: (nodes) => void told.push(...nodes),
    onAll: () => void synced++,
  });
  const query = { namespace, labelSelector: "component=init" };
  const stopping = new AbortController();
  const { ended } = await views.pods.start(stopping.signal);
  const patch: WatchSetup["patch"] = async (name, body, subresource) => {
    const options = subresource === undefined ? {} : { subresource };
    await cluster.client.patch(pods, { namespace, name }, { type: "merge", body }, options);
  };
  return {
    namespace,
    query,
    client,
    view: views.pods,
    want: (queries, annotations = [READY]) => views.want(gatesOf(queries, annotations)),
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
      views.pods
        .at(of)
        ?.byIndex("node", node)
        .map(({ metadata }) => metadata?.name ?? "")
        .toSorted(),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
      await client.close();
    },
  };
}

/** One gate with a signal for each. A selector has one label. */
function gatesOf(queries: readonly PodQuery[], annotations: readonly string[]): Gates {
  const signals = queries.flatMap(({ namespace = "*", labelSelector }) =>
    annotations.map((readyAnnotation) => ({
      namespaces: [namespace],
      selector: { matchLabels: Object.fromEntries([labelSelector.split("=")]) },
      readyAnnotation,
    })),
  );
  const spec = startupGateSpec.parse({ minimumHold: "1s", signals: { pods: signals } });
  return compileGates({ sources: [{ source: "config", documents: [{ name: "g", spec }] }] });
}
