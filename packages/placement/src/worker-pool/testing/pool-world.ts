/** WorkerPools on a real control plane: a controller of them, and what tests ask about them. */
import { toCustomResourceDefinition } from "@berth/host";
import {
  customResourceDefinitions,
  type Deployment,
  deployments,
  type KubeClient,
  type KubeObject,
  namespaces,
  type ObjectName,
} from "@berth/kube";
import { clusterName, createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { eventually } from "@berth/testcluster";
import { expect } from "vitest";
import { product } from "../../api/group.ts";
import type { WorkerPoolAllowance } from "../allowance.ts";
import type { WorkerPoolConfig } from "../deployment.ts";
import type { WorkerPoolSpec } from "../document.ts";
import { type WorkerPool, workerPoolKind, workerPools } from "../resource.ts";
import { createWorkerPools } from "../worker-pools.ts";

/** The garbage collector looks for new kinds every 30 s. Milliseconds. */
export const GARBAGE = { timeoutMs: 120_000, everyMs: 250 };
/** For what takes the controllers of Kubernetes several steps, each as soon as they get to it. */
const CONTROLLERS = { timeoutMs: 60_000 };
/** User agent of the controller. */
export const AGENT = "berth-worker-pools";

const SPACES = "9 13 13-clear 13-rogue 13-deleted microvm scale writes writes-other two 14 14-other 11";
const HELD_SPACES = "background foreground held held-other orphan";
const allow: WorkerPoolAllowance = {
  images: ["registry.test/"],
  namespaces: `${SPACES} ${HELD_SPACES}`.split(" ").map((it) => `pools-${it}`),
  priorityClasses: ["system-node-critical"],
};

/** A test cluster, as far as it is used here. */
export interface PoolCluster {
  /** As a user other than the controller. */
  readonly client: KubeClient;
  connect(choice: { readonly userAgent: string; readonly fieldManager: string }): KubeClient;
}

/** Installs the CRD; it is served a moment later. */
export async function installPools({ client }: PoolCluster): Promise<void> {
  await client.apply(customResourceDefinitions, toCustomResourceDefinition(workerPoolKind, product));
}

/** The controller, with a connection of its own, until disposed of. Allows what `PoolUnderTest` makes. */
export async function startPools(
  cluster: PoolCluster,
  config: WorkerPoolConfig | undefined,
): Promise<AsyncDisposable & { configure(next: WorkerPoolConfig | undefined): void }> {
  const client = cluster.connect({ userAgent: AGENT, fieldManager: AGENT });
  const pools = createWorkerPools({
    client,
    informers: createSharedInformers({ client, cluster: clusterName("test"), clock: systemClock }),
    cluster: clusterName("test"),
    clock: systemClock,
    log: createSilentLogger(),
  });
  const configure = (next: WorkerPoolConfig | undefined) => pools.configure(next && { allow, ...next });
  configure(config);
  const abort = new AbortController();
  const components = [...pools.views.components, pools.controller];
  const running = await Promise.all(components.map((one) => one.start(abort.signal)));
  return {
    configure,
    async [Symbol.asyncDispose]() {
      abort.abort();
      await Promise.all(running.map(({ ended }) => ended));
      await client.close();
    },
  };
}

/** One pool in a namespace of its own. */
export class PoolUnderTest {
  readonly of: Required<ObjectName>;
  readonly #client: KubeClient;

  constructor({ client }: PoolCluster, of: Required<ObjectName>) {
    this.#client = client;
    this.of = of;
  }

  get deploymentName(): Required<ObjectName> {
    return { ...this.of, name: `${this.of.name}-deployment` };
  }

  create(spec: Partial<WorkerPoolSpec> = {}): Promise<WorkerPool> {
    const { namespace, name } = this.of;
    const full = { replicas: 1, ateomImage: "registry.test/ateom:1", ...spec };
    return this.#client.create(workerPools, { metadata: { namespace, name }, spec: full }, { namespace });
  }

  read(): Promise<WorkerPool> {
    return this.#client.get(workerPools, this.of);
  }

  /** A merge patch: `null` takes a field off. */
  edit(spec: object): Promise<WorkerPool> {
    return this.#client.patch(workerPools, this.of, { type: "merge", body: { spec } });
  }

  delete(propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background"): Promise<void> {
    return this.#client.delete(workerPools, this.of, { propagationPolicy });
  }

  deployment(): Promise<Deployment> {
    return this.#client.get(deployments, this.deploymentName);
  }

  /** Its Deployment, once `check` passes. */
  settled(check: (deployment: Deployment) => void): Promise<Deployment> {
    return eventually(async () => {
      const deployment = await this.deployment();
      check(deployment);
      return deployment;
    }, CONTROLLERS);
  }

  /** As another user. */
  editDeployment(body: object): Promise<Deployment> {
    return this.#client.patch(deployments, this.deploymentName, { type: "merge", body });
  }
}

export async function aPool(cluster: PoolCluster, namespace: string): Promise<PoolUnderTest> {
  await cluster.client.create(namespaces, { metadata: { name: namespace } });
  return new PoolUnderTest(cluster, { namespace, name: "pool" });
}

/** Resolves once the status of the pool says this, and nothing else. */
export async function counts(pool: PoolUnderTest, replicas: number): Promise<void> {
  await eventually(async () => expect((await pool.read()).status).toEqual({ replicas }), CONTROLLERS);
}

/** Resolves once the Deployment controller has seen the Deployment as it is. */
export async function observed(pool: PoolUnderTest): Promise<void> {
  await pool.settled(({ status, metadata }) => expect(status?.observedGeneration).toBe(metadata?.generation));
}

/** A pool that has come to rest, with the controller of `startPools` still running. */
export async function restingPool(
  cluster: PoolCluster,
  namespace: string,
  replicas = 1,
): Promise<PoolUnderTest> {
  const pool = await aPool(cluster, namespace);
  await pool.create({ replicas });
  await counts(pool, replicas);
  await observed(pool);
  return pool;
}

/** Resolves once there is no such object: the garbage collector may have to take it. */
export async function gone(read: () => Promise<KubeObject>): Promise<void> {
  await eventually(() => expect(read()).rejects.toMatchObject({ failure: { kind: "notFound" } }), GARBAGE);
}
