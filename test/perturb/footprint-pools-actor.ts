/** The actor of stories about WorkerPools: users, and the controllers that the scene plays. */
import { deployments, type KubeObject, nodes, type Pod, pods, replicaSets } from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import { aNode, type Stage } from "@berth/testcluster";
import { ORPHAN } from "./footprint-oracle.ts";
import { orphanPool } from "./footprint-scene.ts";

/** What the steps of a story can do. All names are local. */
export interface PoolActor {
  readonly addNode: (node: string) => Promise<void>;
  readonly addPool: (pool: string, replicas: number) => Promise<void>;
  readonly scalePool: (pool: string, replicas: number) => Promise<void>;
  /** As `kubectl delete` does it by default. */
  readonly removePool: (pool: string) => Promise<void>;
  /** `kubectl delete --cascade=orphan`: the rest is up to the garbage collector. */
  readonly orphanPool: (pool: string) => Promise<void>;
  /** Somebody else edits the Deployment of the pool. */
  readonly editDeployment: (pool: string, spec: object) => Promise<void>;
  /** The controllers of its Deployment: a ReplicaSet, pods on nodes, and how many pods there are. */
  readonly rollOut: (pool: string, content: RollOut) => Promise<void>;
  readonly removePod: (pod: string) => Promise<void>;
  /** The garbage collector finds that the Deployment of the pool is gone. */
  readonly collectSet: (pool: string) => Promise<void>;
  /** The garbage collector has nothing of the pool owned by it any more, and says so. */
  readonly orphan: (pool: string) => Promise<void>;
}

export interface RollOut {
  /** Nodes by the name of the new pod on each. */
  readonly pods?: Readonly<Record<string, string>>;
  /** How many there are then. */
  readonly replicas: number;
}

/** Local names of what is made of a pool. */
export function deploymentName(pool: string): string {
  return `${pool}-deployment`;
}

export function setName(pool: string): string {
  return `${pool}-set`;
}

/** As the controller of a Deployment adds a label of its own to pods. */
export const SELECTED = "pod-template-hash";
export const OF_STORY: Readonly<Record<typeof SELECTED, string>> = { [SELECTED]: "story" };

export function poolObject(name: string, replicas: number): WorkerPool {
  return {
    apiVersion: "ate.dev/v1alpha1",
    kind: "WorkerPool",
    metadata: { name, namespace: "default" },
    spec: { replicas, ateomImage: "registry.test/ateom:1" },
  };
}

/** @param uids gets the names of pools by their uids. */
export function createPoolActor(stage: Stage, uids: Map<string, string>): PoolActor {
  const edit = async (pool: string, body: object): Promise<void> => {
    await stage.patch(workerPools, pool, { type: "merge", body });
  };
  return {
    async addNode(name) {
      const node = aNode(name).annotated({ "example.com/note": name });
      await stage.create(nodes, node.tainted("example.com/dedicated=ml:NoSchedule").build());
    },
    async addPool(name, replicas) {
      const { metadata } = await stage.create(workerPools, poolObject(name, replicas));
      uids.set(metadata?.uid ?? "", name);
    },
    scalePool: (pool, replicas) => edit(pool, { spec: { replicas } }),
    removePool: (pool) => stage.remove(workerPools, pool),
    orphanPool: (pool) => orphanPool(stage, pool),
    async editDeployment(pool, spec) {
      await stage.patch(deployments, deploymentName(pool), { type: "merge", body: { spec } });
    },
    rollOut: (pool, content) => rollOut(stage, pool, content),
    removePod: (pod) => stage.remove(pods, pod),
    collectSet: (pool) => stage.remove(replicaSets, setName(pool)),
    async orphan(pool) {
      const body = { metadata: { ownerReferences: null } };
      await stage.patch(deployments, deploymentName(pool), { type: "merge", body });
      const { finalizers = [] } = stage.latest(workerPools, pool)?.metadata ?? {};
      await edit(pool, { metadata: { finalizers: finalizers.filter((one) => one !== ORPHAN) } });
    },
  };
}

/** Pods are as the template says that Berth has made. */
async function rollOut(stage: Stage, pool: string, { pods: made = {}, replicas }: RollOut): Promise<void> {
  const deployment = stage.latest(deployments, deploymentName(pool));
  const { selector, template } = deployment?.spec ?? {};
  if (deployment === undefined || selector === undefined || template?.spec === undefined)
    throw new RangeError(`${pool} has no Deployment`);
  const labels = { ...template.metadata?.labels, ...OF_STORY };
  const set =
    stage.latest(replicaSets, setName(pool)) ??
    (await stage.create(replicaSets, {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: setName(pool), namespace: "default", labels, ownerReferences: [ownerOf(deployment)] },
      spec: { selector, template: { metadata: { labels }, spec: template.spec } },
    }));
  for (const [name, node] of Object.entries(made)) {
    await stage.create(pods, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", labels, ownerReferences: [ownerOf(set)] },
      spec: { ...template.spec, nodeName: stage.nameOf(node), terminationGracePeriodSeconds: 0 },
    });
  }
  await stage.patch(
    deployments,
    deploymentName(pool),
    { type: "merge", body: { status: { replicas } } },
    { subresource: "status" },
  );
}

type OwnerReference = NonNullable<NonNullable<Pod["metadata"]>["ownerReferences"]>[number];

/** Of what the server has told: its kind comes with it. */
function ownerOf({ apiVersion = "apps/v1", kind = "", metadata }: KubeObject): OwnerReference {
  const { name = "", uid = "" } = metadata ?? {};
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}
