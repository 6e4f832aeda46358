/** Pods of footprints from a real API server, and what arrives of them. */

import { createViews } from "@berth/host";
import { type KubeClient, type KubeObject, namespaces, type Pod, pods } from "@berth/kube";
import { clusterName, createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { aPod, type PodBuilder, type TestCluster } from "@berth/testcluster";
import type { Footprint, NeedingPods } from "../footprint.ts";
import { type FootprintViews, footprintConcerns, footprintReads, podsIn } from "../reads.ts";
import { plainFootprint } from "./footprints.ts";

let count = 0;

/** Pods with a label of its own, so that tests do not see one another's. */
export function footprintByKey(
  id: string,
  workload: Partial<NeedingPods> = {},
  init: Partial<Footprint> = {},
): Footprint {
  const podSelector = { matchExpressions: [{ key: id, operator: "Exists" }] } as const;
  return plainFootprint(id, { podSelector, ...workload }, init);
}

export interface PodsRun extends AsyncDisposable {
  /** Also the name of its namespace, and the key of the label of its pods. */
  readonly id: string;
  readonly views: FootprintViews;
  /** Nodes told of, in order. */
  readonly told: string[];
  /** Names of the pods that came over the wire, each time they did. */
  readonly received: string[];
  create(pod: PodBuilder): Promise<Pod>;
  patch(name: string, body: object, subresource?: string): Promise<void>;
  readonly names: (footprint: Footprint, node: string) => readonly string[] | undefined;
}

/** Watches, of which everything that arrives is kept. Runs until it is disposed of. */
export async function startPods(cluster: TestCluster): Promise<PodsRun> {
  const id = `footprint-${++count}`;
  await cluster.client.create(namespaces, { metadata: { name: id } });
  const client = cluster.connect();
  const told: string[] = [];
  const received: string[] = [];
  const counted = <T extends KubeObject>(project?: (object: T) => T) => ({
    project(object: T): T {
      received.push(object.metadata?.name ?? "");
      return project?.(object) ?? object;
    },
  });
  const listening: Pick<KubeClient, "list" | "watch"> = {
    list: (resource, options) => client.list(resource, { ...options, ...counted(options?.project) }),
    watch: (resource, options) => client.watch(resource, { ...options, ...counted(options?.project) }),
  };
  const place = { cluster: clusterName("test"), clock: systemClock };
  const views = createViews(footprintReads, {
    ...place,
    informers: createSharedInformers({ ...place, client: listening }),
    log: createSilentLogger(),
    concerns: footprintConcerns,
    onKeys: (nodes) => void told.push(...nodes),
  });
  const stopping = new AbortController();
  const { ended } = await views.pods.start(stopping.signal);
  const patch: PodsRun["patch"] = async (name, body, subresource) => {
    const options = subresource === undefined ? {} : { subresource };
    await cluster.client.patch(pods, { namespace: id, name }, { type: "merge", body }, options);
  };
  return {
    id,
    views,
    told,
    received,
    patch,
    create: (builder) => cluster.client.create(pods, builder.in(id).build(), { namespace: id }),
    names: (footprint, node) =>
      podsIn(views.pods, footprint, { node })
        ?.map(({ metadata }) => metadata?.name ?? "")
        .toSorted(),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
      await client.close();
    },
  };
}

export const anAteom = (id: string, name: string, node: string): PodBuilder =>
  aPod(name)
    .labelled({ [id]: "a", other: "x" })
    .on(node);

/** Asks for two GPUs and a core. An extended resource has the same limit. */
export function withGpu(pod: Pod): Pod {
  const limits = { "example.com/gpu": "2" };
  const requests = { cpu: "1", ...limits };
  const containers = (pod.spec?.containers ?? []).map((container) =>
    Object.assign({}, container, { resources: { requests, limits } }),
  );
  return { ...pod, spec: { ...pod.spec, containers } };
}
