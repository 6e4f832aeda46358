/** What footprints see of a real cluster, and the Deployments, with an owner of a kind of their own, that it sees. */
import {
  bindings,
  type CustomResourceDefinition,
  type Deployment,
  defineResource,
  deployments,
  type KubeObject,
  namespaces,
  type Pod,
  pods,
  type Resource,
  serviceAccounts,
} from "@berth/kube";
import { clusterName, createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { eventually, type TestCluster } from "@berth/testcluster";
import type { Footprint, NeedingPods } from "../footprint.ts";
import { type FootprintWatches, watchFootprints } from "../observations.ts";
import { plainFootprint } from "./footprints.ts";

let count = 0;

export const POOL = { group: "footprint.test", kind: "Pool" };
export const poolResource: Resource = defineResource({
  ...POOL,
  version: "v1",
  plural: "pools",
  namespaced: true,
});
export const poolDefinition: CustomResourceDefinition = {
  metadata: { name: "pools.footprint.test" },
  spec: {
    group: POOL.group,
    names: { kind: POOL.kind, plural: "pools" },
    scope: "Namespaced",
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
  },
};

export function footprintByApp(
  id: string,
  workload: Partial<NeedingPods>,
  init: Partial<Footprint> = {},
): Footprint {
  return plainFootprint(id, { podSelector: { matchLabels: { app: id } }, ...workload }, init);
}

export interface SightRun extends AsyncDisposable {
  readonly id: string;
  readonly watches: FootprintWatches;
  /** Nodes told of. */
  readonly told: Set<string>;
  /** Nodes of pods whose owners have become known. */
  readonly known: Set<string>;
  /** How often something was another in a namespace. */
  readonly near: { namespaces: number };
  /** Where need may be another. */
  problem(): string | undefined;
}

/** What is seen by a user, in a namespace of its own. Runs until it is disposed of. */
export async function startObservations(cluster: TestCluster, user?: string): Promise<SightRun> {
  const id = `observations-${++count}`;
  await cluster.client.create(namespaces, { metadata: { name: id, labels: { team: "a" } } });
  // Until the controller manager has made it, every pod of the namespace is refused.
  await eventually(() => cluster.client.get(serviceAccounts, { namespace: id, name: "default" }));
  const client = cluster.connect({
    userAgent: id,
    ...(user !== undefined && { user: await cluster.user(user) }),
  });
  const told = new Set<string>();
  const near = { namespaces: 0 };
  const known = new Set<string>();
  const at = { client, cluster: clusterName("test"), clock: systemClock };
  const watches = watchFootprints(
    { ...at, informers: createSharedInformers(at), log: createSilentLogger() },
    {
      onNode: (node) => void told.add(node),
      onEverything: () => {},
      holds: () => ({
        podChanged: () => undefined,
        ownersKnown: ({ spec }) => void known.add(spec?.nodeName ?? ""),
        lookAgain: () => void near.namespaces++,
      }),
    },
  );
  const stopping = new AbortController();
  const running = await Promise.all(watches.components.map((part) => part.start(stopping.signal)));
  return {
    id,
    watches,
    told,
    known,
    near,
    problem: () => watches.components.map((part) => part.problem?.()).find((it) => it !== undefined),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.all(running.map(({ ended }) => ended));
      await client.close();
    },
  };
}

function aDeployment(id: string, owner?: KubeObject): Deployment {
  const { name = "", uid = "" } = owner?.metadata ?? {};
  const reference = { apiVersion: "footprint.test/v1", kind: POOL.kind, name, uid, controller: true };
  return {
    metadata: { namespace: id, name: "web", ...(owner && { ownerReferences: [reference] }) },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: id } },
      template: {
        metadata: { labels: { app: id } },
        spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
      },
    },
  };
}

/** The two pods of a Deployment that its controllers have made. */
export async function webOf(
  { client }: TestCluster,
  namespace: string,
  owner?: KubeObject,
): Promise<readonly [Pod, Pod]> {
  await client.create(deployments, aDeployment(namespace, owner));
  return eventually(async () => {
    const [one, two] = (await client.list(pods, { namespace })).items;
    if (one === undefined || two === undefined) throw new Error("the Deployment has no two pods yet");
    return [one, two] as const;
  });
}

/** As no scheduler runs. */
export async function bindPod({ client }: TestCluster, pod: Pod, node: string): Promise<void> {
  const { namespace = "", name = "" } = pod.metadata ?? {};
  await client.create(
    bindings,
    { metadata: { name, namespace }, target: { kind: "Node", name: node } },
    { namespace },
  );
}
