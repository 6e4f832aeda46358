/** A real cluster with the garbage collector and the Deployment controller, whose owners are held. The test is the kubelet. */

import { deepStrictEqual, ok } from "node:assert";
import {
  bindings,
  type Deployment,
  deployments,
  type KubeClient,
  type KubeObject,
  namespaces,
  nodes,
  type Pod,
  pods,
} from "@berth/kube";
import { aNode, eventually, sharedTestCluster } from "@berth/testcluster";
import type { NodeFootprintSpec } from "../document.ts";
import {
  createOwner,
  FINALIZER,
  find,
  footprintsOf,
  GROUP,
  type HoldWorld,
  owners,
  podsOfOwner,
  serveOwners,
  startHolds,
} from "./hold-world.ts";

/** For what takes the controllers of Kubernetes several steps, each as soon as they get to it. */
const CONTROLLERS = { timeoutMs: 120_000 };
export const namespace = "footprint-holds";
export const NODE = "holds-1";

const KEY = "test.berth.dev/agent";
export const SPEC: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
  group: { by: "OwnerUID", owner: { group: GROUP, kind: "Pool" } },
  node: { label: { key: KEY } },
};

/** Another label, by which no two footprints want one place. */
export function holding(finalizer: string = FINALIZER, label: string = KEY): NodeFootprintSpec {
  const resource = { group: GROUP, version: "v1", resource: "pools" };
  const ownedResources = [{ group: "apps", version: "v1", resource: "deployments" }];
  return { ...SPEC, node: { label: { key: label } }, hold: { resource, finalizer, ownedResources } };
}

export class HoldCluster {
  readonly client: KubeClient;
  #count = 0;

  private constructor(client: KubeClient) {
    this.client = client;
  }

  static async start(): Promise<HoldCluster> {
    const cluster = await sharedTestCluster({ with: ["controller-manager"] });
    const { client } = cluster;
    await client.create(namespaces, { metadata: { name: namespace } });
    await client.create(nodes, aNode(NODE).build());
    await serveOwners(client);
    await eventually(() => client.list(owners, {}));
    // The garbage collector looks for new kinds when it starts, and then every 30 s.
    await cluster.stopComponent("kube-controller-manager");
    await cluster.startComponent("kube-controller-manager");
    // It works, and knows the kind, once it ends a deletion in the foreground.
    const probe = { namespace, name: "probe" };
    await client.create(owners, { metadata: probe }, { namespace });
    await client.delete(owners, probe, { propagationPolicy: "Foreground" });
    const started = new HoldCluster(client);
    await started.gone(probe.name);
    return started;
  }

  startBerth(...[hold = {}, group]: Partial<Parameters<typeof footprintsOf>>): HoldWorld {
    return this.startHolds(footprintsOf(hold, group));
  }

  startHolds(footprints: ReturnType<typeof footprintsOf>): HoldWorld {
    return startHolds(this.client, footprints);
  }

  nextName(): string {
    return `p-${++this.#count}`;
  }

  theOwner(name: string): Promise<KubeObject | undefined> {
    return find(this.client, owners, { namespace, name });
  }

  theDeployment(name: string): Promise<Deployment | undefined> {
    return find(this.client, deployments, { namespace, name: `${name}-deployment` });
  }

  /** With the finalizer on it. */
  async guarded(replicas = 1): Promise<string> {
    const name = this.nextName();
    await createOwner(this.client, { namespace, name, replicas });
    await eventually(async () => ok((await this.theOwner(name))?.metadata?.finalizers?.includes(FINALIZER)));
    return name;
  }

  /** All its pods, bound to the node. */
  async running(name: string, replicas = 1): Promise<readonly Pod[]> {
    const made = await eventually(async () => {
      const found = await podsOfOwner(this.client, namespace, name);
      deepStrictEqual(found.length, replicas);
      return found;
    }, CONTROLLERS);
    for (const { metadata: { name: pod = "" } = {} } of made) {
      const binding = { metadata: { name: pod, namespace }, target: { kind: "Node", name: NODE } };
      await this.client.create(bindings, binding, { namespace });
    }
    return made;
  }

  async deleteOwner(
    name: string,
    propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background",
  ): Promise<void> {
    await this.client.delete(owners, { namespace, name }, { propagationPolicy });
  }

  /** As kubelet does at the end of a pod. */
  async endPods(name: string): Promise<void> {
    for (const { metadata } of await podsOfOwner(this.client, namespace, name))
      await this.client.delete(
        pods,
        { namespace, name: metadata?.name ?? "" },
        { gracePeriodSeconds: 0, preconditions: { uid: metadata?.uid ?? "" } },
      );
  }

  async terminating(name: string): Promise<void> {
    await eventually(async () => {
      const found = await podsOfOwner(this.client, namespace, name);
      ok(found.length > 0);
      for (const { metadata } of found) ok(metadata?.deletionTimestamp);
    }, CONTROLLERS);
  }

  async gone(name: string): Promise<void> {
    await eventually(async () => deepStrictEqual(await this.theOwner(name), undefined), CONTROLLERS);
  }
}
