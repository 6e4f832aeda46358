/** Versions of what a pool is about, written down as a telling would, for tests of the verdict. */
import { type Deployment, deployments, nodes, pods, replicaSets } from "@berth/kube";
import { type WorkerPool, workerPools } from "@berth/placement";
import { type Author, aNode } from "@berth/testcluster";
import { PLACES, POOL_FINALIZER, UID_LABEL } from "./footprint-pools-oracle.ts";
import { forbiddenOfPools } from "./footprint-pools-verdict.ts";
import { WrittenHistory } from "./written-history.ts";

const UID = "pool-uid";
const GONE = "2026-01-01T00:00:00Z";

export interface PoolState {
  readonly replicas?: number;
  readonly finalizers?: readonly string[];
  readonly isDeleted?: boolean;
  readonly counted?: number;
  readonly note?: string;
}

export function poolOf({
  replicas = 1,
  finalizers = [POOL_FINALIZER],
  isDeleted,
  counted,
  note,
}: PoolState): WorkerPool {
  return {
    metadata: {
      name: "pool",
      uid: UID,
      finalizers,
      ...(note !== undefined && { annotations: { note } }),
      ...(isDeleted && { deletionTimestamp: GONE }),
    },
    spec: { replicas, ateomImage: "ateom:1" },
    ...(counted !== undefined && { status: { replicas: counted } }),
  };
}

export interface DeploymentState {
  readonly replicas?: number;
  readonly owner?: string | null;
  readonly image?: string;
  readonly counted?: number;
  readonly note?: string;
}

export function deploymentOf({
  replicas = 1,
  owner = UID,
  image = "ateom:1",
  counted,
  note,
}: DeploymentState): Deployment {
  const selector = { "ate.dev/worker-pool": "pool" };
  const wait = {
    name: "wait-for-atelet",
    image: "busybox:1.36",
    command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
  };
  const main = { name: "ateom", image, args: ["--pod-uid=$(POD_UID)"] };
  const reference = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", name: "pool" };
  return {
    metadata: {
      name: "pool-deployment",
      uid: "deployment-uid",
      ...(note !== undefined && { annotations: { note } }),
      ...(owner !== null && {
        ownerReferences: [{ ...reference, uid: owner, controller: true, blockOwnerDeletion: true }],
      }),
    },
    spec: {
      replicas,
      selector: { matchLabels: selector },
      template: {
        metadata: { labels: { ...selector, [UID_LABEL]: UID } },
        spec: { initContainers: [wait], containers: [main] },
      },
    },
    ...(counted !== undefined && { status: { replicas: counted } }),
  };
}

export class PoolHistory extends WrittenHistory {
  pool(state: PoolState, by: Author = "controller", gone?: "DELETED"): this {
    return this.note(workerPools, { name: "pool", object: poolOf(state), by, ...(gone && { gone }) });
  }

  deployment(state: DeploymentState, by: Author = "controller", gone?: "DELETED"): this {
    const object = deploymentOf(state);
    return this.note(deployments, { name: "pool-deployment", object, by, ...(gone && { gone }) });
  }

  set(gone?: "DELETED"): this {
    const owner = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name: "pool-deployment",
      uid: "deployment-uid",
    };
    const object = { metadata: { name: "set", uid: "set-uid", ownerReferences: [owner] } };
    return this.note(replicaSets, { name: "set", object, by: "story", ...(gone && { gone }) });
  }

  pod(gone?: "DELETED"): this {
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "set", uid: "set-uid" };
    const metadata = { name: "p1", labels: { [UID_LABEL]: UID }, ownerReferences: [owner] };
    const object = { metadata, spec: { containers: [], nodeName: "n1" } };
    return this.note(pods, { name: "p1", object, by: "story", ...(gone && { gone }) });
  }

  node(isClaimed: boolean, by: Author = "controller"): this {
    const places = [`label/${PLACES.label}`, `annotation/${PLACES.prefix}${UID}`];
    const marks = Object.fromEntries(places.map((id) => [id, { c: "footprint", r: "config/atelet" }]));
    const bare = aNode("n1");
    const marked = bare
      .labelled({ [PLACES.label]: "true" })
      .annotated({ [`${PLACES.prefix}${UID}`]: "" })
      .annotated({ "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) });
    return this.note(nodes, { name: "n1", object: (isClaimed ? marked : bare).build(), by });
  }

  get problems(): string {
    return forbiddenOfPools(this.entries, this.steps).join("\n");
  }
}
