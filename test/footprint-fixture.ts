/**
 * Fixture for tests of node footprints on the whole product: nodes, WorkerPools and pods on a real control plane, and a
 * Berth in this process. Deployments, DaemonSets, garbage collector and scheduler are the real ones; kwok plays the kubelets
 * of nodes that are `fake()`, and the test those of all others.
 *
 * Long because a test needs words for nodes, pools, pods and the agent.
 */
import { readFile } from "node:fs/promises";
import type { BerthOptions, RunningBerth } from "@berth/cli";
import {
  bindings,
  type Condition,
  type DaemonSet,
  type Deployment,
  daemonSets,
  deployments,
  isApiError,
  type KubeObject,
  type Node,
  nodes,
  type ObjectName,
  type Pod,
  pods,
  type Resource,
} from "@berth/kube";
import {
  type NodeFootprint,
  nodeFootprints,
  originalFootprint,
  type WorkerPool,
  type WorkerPoolSpec,
  workerPools,
} from "@berth/placement";
import {
  type AuditEntry,
  type AuditMark,
  aPod,
  eventually,
  type NodeBuilder,
  type PodBuilder,
  type TestCluster,
} from "@berth/testcluster";
import {
  CANARY,
  createNamespace,
  Fixture,
  isWrite,
  NAMESPACE,
  orGone,
  type StartOptions,
} from "./fixture.ts";
import {
  AGENT,
  DROP_IN,
  FINALIZER,
  type Marks,
  markedBy,
  marksOf,
  type Pool,
  UID_LABEL,
} from "./footprint-cluster.ts";
import { PATIENT } from "./patience.ts";

/** Its scheduler does not exist: pods with it are bound by the test. */
const NO_SCHEDULER = "by-hand";
/** Label of the nodes of a fixture. */
const STAGE = "test.berth.dev/fixture";
/** A fixture with a Berth that has the drop-in. */
export async function createDropInFixture(cluster: TestCluster, name: string): Promise<FootprintFixture> {
  await using owned = new AsyncDisposableStack();
  const fixture = owned.use(await createFootprintFixture(cluster, name));
  await fixture.start();
  owned.move();
  return fixture;
}

/** @param name Of the namespace of its pools; begins the names of its nodes. */
export async function createFootprintFixture(cluster: TestCluster, name: string): Promise<FootprintFixture> {
  await createNamespace(cluster, name);
  return new FootprintFixture(cluster, name);
}

export class FootprintFixture extends Fixture {
  #canaryPool: Promise<Pool> | undefined;

  /** Starts a Berth, with the drop-in unless it is given another `config`. */
  async start(options: StartOptions = {}): Promise<RunningBerth> {
    const dropIn = await readFile(DROP_IN, "utf8");
    const allowed = dropIn
      .replace("registry.example/", "registry.test/")
      .replace("namespaces: [agents]", `namespaces: ["${this.name}"]`);
    const config = [await this.file("agent-substrate-pr-134.yaml", allowed)];
    return this.run(options, { namespace: NAMESPACE, config, ...options });
  }

  /**
   * Only WorkerPools, as the drop-in has them unless told otherwise; footprints stand in the cluster then, where they have a
   * status. For the option `config`.
   */
  async poolsOnly(fields = "uidLabel: true, wait: {}"): Promise<NonNullable<BerthOptions["config"]>> {
    const allow = `{images: [registry.test/], namespaces: ["${this.name}"]}`;
    const text = `{apiVersion: berth.dev/v1alpha1, kind: WorkerPools, metadata: {name: pools}, spec: {allow: ${allow}, ${fields}}}`;
    return [await this.file("pools.yaml", text)];
  }

  /** A footprint in the cluster: those of files have no status. */
  footprint(name: string, spec: object): Promise<NodeFootprint> {
    return this.cluster.client.create(nodeFootprints, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "NodeFootprint",
      metadata: { name },
      spec,
    });
  }

  async status(footprint: string): Promise<NonNullable<NodeFootprint["status"]>> {
    return (await this.cluster.client.get(nodeFootprints, { name: footprint })).status ?? {};
  }

  /** Resolves once the condition has this reason. */
  async condition(footprint: string, type: string, reason: string): Promise<Condition> {
    return eventually(async () => {
      const { conditions = [] } = await this.status(footprint);
      const found = conditions.find((it) => it.type === type);
      if (found?.reason !== reason) throw new Error(JSON.stringify(conditions));
      return found;
    }, PATIENT);
  }

  /** Without a kubelet, unless it is made `fake()`. */
  override add(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    return super.add(node, (it) => shape(it.labelled({ [STAGE]: this.name })));
  }

  async marksOf(node: string): Promise<Marks> {
    return marksOf(await this.readNode(node));
  }

  /** Resolves once the node carries the label and exactly the claims of these pools; without any, none of it. */
  async marked(node: string, ...groups: readonly (Pool | undefined)[]): Promise<Node> {
    const wanted = markedBy(...groups);
    return eventually(async () => {
      const found = await this.readNode(node);
      const marks = marksOf(found);
      if (JSON.stringify(marks) !== JSON.stringify(wanted))
        throw new Error(`${node}: ${JSON.stringify(marks)} and not ${JSON.stringify(wanted)}`);
      return found;
    }, PATIENT);
  }

  /** Its pods run on nodes of this fixture. By default none: those of `pod` are made by the test. */
  async pool(name: string, spec: Partial<WorkerPoolSpec> = {}): Promise<Pool> {
    const template = { nodeSelector: { [STAGE]: this.name }, ...spec.template };
    const full = { replicas: 0, ateomImage: "registry.test/ateom:1", ...spec, template };
    const { namespace } = this.in(name);
    const body = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", metadata: { namespace, name } };
    const made = await this.cluster.client.create(workerPools, { ...body, spec: full }, { namespace });
    return { name, uid: made.metadata?.uid ?? "" };
  }

  /** The name of an object in the namespace of the fixture. */
  in(name: string): Required<ObjectName> {
    return { namespace: this.name, name };
  }

  readPool({ name }: Pool): Promise<WorkerPool> {
    return this.cluster.client.get(workerPools, this.in(name));
  }

  /** A merge patch. */
  editPool({ name }: Pool, body: object): Promise<WorkerPool> {
    return this.cluster.client.patch(workerPools, this.in(name), { type: "merge", body });
  }

  /** Resolves once it has the finalizer, without which its deletion waits for nobody. */
  async guarded(pool: Pool): Promise<Pool> {
    return eventually(async () => {
      const { metadata } = await this.readPool(pool);
      if (metadata?.finalizers?.includes(FINALIZER) !== true) throw new Error(`${pool.name} is not guarded`);
      return pool;
    }, PATIENT);
  }

  /** As kubectl does it by default. */
  deletePool(
    { name }: Pool,
    propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background",
  ): Promise<void> {
    return this.cluster.client.delete(workerPools, this.in(name), { propagationPolicy });
  }

  deploymentOf({ name }: Pool): Promise<Deployment> {
    return this.cluster.client.get(deployments, this.in(`${name}-deployment`));
  }

  /** Resolves once there is no such object, or another one of its name. */
  async gone(read: () => Promise<KubeObject>, uid?: string): Promise<void> {
    await eventually(async () => {
      const found = await read().catch((error: unknown) => {
        if (isApiError(error, "notFound")) return undefined;
        throw error;
      });
      if (found !== undefined && (uid === undefined || found.metadata?.uid === uid))
        throw new Error(`still there: ${JSON.stringify(found.metadata)}`);
    }, PATIENT);
  }

  /** Of the pool itself, as if it had been made by it; no scheduler looks at it. */
  pod(name: string, pool: Pool): PodBuilder {
    const owner = { apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", ...pool, controller: true };
    return this.stranger(name)
      .labelled({ [originalFootprint.poolLabel]: pool.name, [UID_LABEL]: pool.uid })
      .with((pod) => ({ ...pod, metadata: { ...pod.metadata, ownerReferences: [owner] } }));
  }

  /** Of nobody; no scheduler looks at it. */
  stranger(name: string): PodBuilder {
    return aPod(name)
      .in(this.name)
      .with((pod) => ({
        ...pod,
        spec: { containers: [], ...pod.spec, schedulerName: NO_SCHEDULER },
      }));
  }

  /** Makes a pod that is bound from the beginning. */
  async bound(name: string, pool: Pool, node: string): Promise<Pod> {
    return this.create(this.pod(name, pool).on(this.nodeName(node)));
  }

  /** As a scheduler does. */
  async bind(name: string, node: string): Promise<void> {
    const target = { apiVersion: "v1", kind: "Node", name: this.nodeName(node) };
    const { namespace } = this.in(name);
    await this.cluster.client.create(bindings, { metadata: { name, namespace }, target }, { namespace });
  }

  editPod(name: string, body: object): Promise<Pod> {
    return this.cluster.client.patch(pods, this.in(name), { type: "merge", body });
  }

  /** As a kubelet says it. */
  async say(name: string, phase: "Running" | "Succeeded" | "Failed"): Promise<void> {
    const patch = { type: "merge", body: { status: { phase } } } as const;
    await this.cluster.client.patch(pods, this.in(name), patch, { subresource: "status" });
  }

  /** It is told to end, and stays until somebody ends it. */
  async terminate(name: string): Promise<void> {
    await this.cluster.client.delete(pods, this.in(name), { gracePeriodSeconds: 300 });
  }

  /** Those that a pool's Deployment has made. */
  async podsOf({ name }: Pool): Promise<readonly Pod[]> {
    const labelSelector = `${originalFootprint.poolLabel}=${name}`;
    return (await this.cluster.client.list(pods, { namespace: this.name, labelSelector })).items;
  }

  /** Short names of the nodes where pods of the pool are, sorted, once there are so many. */
  async spread(pool: Pool, count: number): Promise<readonly string[]> {
    return eventually(async () => {
      const on = (await this.podsOf(pool)).flatMap(({ spec }) => spec?.nodeName ?? []);
      if (on.length !== count) throw new Error(`${on.length} pods of ${pool.name} are bound`);
      return on.map((it) => it.slice(this.name.length + 1)).sort();
    }, PATIENT);
  }

  /** The agent. Its node selector is the original's, or none. */
  async agent(change: { readonly nodeSelector?: Readonly<Record<string, string>> } = {}): Promise<DaemonSet> {
    const labels = { app: "atelet" };
    const container = { name: "atelet", image: "registry.test/atelet:1" };
    return this.cluster.client.create(
      daemonSets,
      {
        metadata: { name: AGENT.name, labels },
        spec: {
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [container], ...change } },
        },
      },
      { namespace: AGENT.namespace },
    );
  }

  readAgent(): Promise<DaemonSet> {
    return this.cluster.client.get(daemonSets, AGENT);
  }

  /** A merge patch. */
  editAgent(body: object): Promise<DaemonSet> {
    return this.cluster.client.patch(daemonSets, AGENT, { type: "merge", body });
  }

  /** Resolves once the agent has a pod on each of these nodes and on no other. */
  async agentsOn(...wanted: readonly string[]): Promise<readonly Pod[]> {
    const names = wanted.map((node) => this.nodeName(node)).sort();
    return eventually(async () => {
      const { items } = await this.cluster.client.list(pods, {
        namespace: AGENT.namespace,
        labelSelector: "app=atelet",
      });
      const on = items.map(agentNode).filter((name) => !name.startsWith(this.nodeName(CANARY)));
      on.sort();
      if (on.join() !== names.join()) throw new Error(`${on.join()} and not ${names.join()}`);
      return items;
    }, PATIENT);
  }

  /**
   * Resolves once everything that was done before has been seen and answered: a node and its pod, both made after all
   * else, are marked. They are gone then.
   */
  async settled(): Promise<void> {
    this.#canaryPool ??= this.#makeCanaryPool();
    const pool = await this.#canaryPool;
    const name = this.nextCanary();
    // No scheduler puts pods of others there.
    await this.add(name, (it) => it.unschedulable());
    await this.bound(name, pool, name);
    await this.marked(name, pool);
    await this.deletePod(name);
    await this.cluster.client.delete(nodes, { name: this.nodeName(name) });
  }

  async #makeCanaryPool(): Promise<Pool> {
    const pool = await this.guarded(await this.pool(CANARY));
    await eventually(() => this.deploymentOf(pool));
    return pool;
  }

  /**
   * What Berth has changed of nodes, or of this one: `patch 200`. A write that met one of the controllers, which write to
   * nodes as well, changes nothing and is made again; canaries do not count.
   */
  async changes(mark: AuditMark, node?: string): Promise<readonly string[]> {
    return (await this.nodeWrites(mark, node)).filter((it) => it !== "patch 409");
  }

  async writes(mark: AuditMark): Promise<readonly AuditEntry[]> {
    return (await this.requests(mark)).filter(isWrite);
  }

  /** And no pool, no footprint, no Deployment. */
  protected override async clear(): Promise<void> {
    const { client } = this.cluster;
    await client.deleteCollection(nodeFootprints, {});
    const { items } = await client.list(workerPools, { metadataOnly: true });
    for (const { metadata: { namespace = "", name = "" } = {} } of items) {
      const body = { metadata: { finalizers: null } };
      await client.patch(workerPools, { namespace, name }, { type: "merge", body }).catch(orGone);
      await client.delete(workerPools, { namespace, name }).catch(orGone);
    }
    await client.deleteCollection(deployments, { namespace: this.name });
    await super.clear();
    const resources: readonly Resource[] = [deployments, pods];
    await eventually(async () => {
      for (const namespace of [this.name, AGENT.namespace]) {
        await client.deleteCollection(pods, { namespace }, { gracePeriodSeconds: 0 });
        for (const resource of resources) {
          const left = await client.list(resource, { namespace, metadataOnly: true });
          if (left.items.length > 0) throw new Error(`${left.items.length} ${resource.plural} are left`);
        }
      }
    }, PATIENT);
  }
}

/** `status.phase` and the like of what a DaemonSet has made are of no matter: its pods name their node in their affinity. */
function agentNode({ spec }: Pod): string {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return spec?.nodeName ?? required?.nodeSelectorTerms[0]?.matchFields?.[0]?.values?.[0] ?? "";
}
