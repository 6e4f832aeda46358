/** Holds put together as the product does, on a real cluster whose owners are of a kind of the tests' own. */
import {
  customResourceDefinitions,
  type Deployment,
  type DeploymentSpec,
  defineResource,
  deployments,
  isApiError,
  type KubeClient,
  type KubeObject,
  type OwnerReference,
  type Pod,
  pods,
  type Resource,
  replicaSets,
} from "@berth/kube";
import {
  clusterName,
  createController,
  createSharedInformers,
  createSilentLogger,
  type EventInput,
  Manager,
  systemClock,
} from "@berth/runtime";
import { compileFootprints } from "../compile.ts";
import type { FootprintGroup, FootprintHold, NodeFootprintSpec } from "../document.ts";
import type { Footprints } from "../footprint.ts";
import { HeldOwners } from "../hold/held-owners.ts";
import { createHoldReconciler } from "../hold/reconciler.ts";
import { HoldWatches, type OwnerKey, toOwnerText } from "../hold/watches.ts";
import { watchFootprints } from "../observations.ts";

export const GROUP = "test.berth.dev";
export const FINALIZER = "test.berth.dev/hold";
export const owners: Resource = defineResource({
  group: GROUP,
  version: "v1",
  plural: "pools",
  kind: "Pool",
  namespaced: true,
});

/** It can be some time until the kind is served. */
export async function serveOwners(client: KubeClient): Promise<void> {
  const names = { plural: "pools", singular: "pool", kind: "Pool", listKind: "PoolList" };
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await client.apply(customResourceDefinitions, {
    metadata: { name: `pools.${GROUP}` },
    spec: {
      group: GROUP,
      scope: "Namespaced",
      names,
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  });
}

const BY_POOL: FootprintGroup = { by: "OwnerUID", owner: { group: GROUP, kind: "Pool" } };

/** One footprint, `cluster/agent`, of pods with the label `agent: needed`, by default grouped by the uid of their Pool. */
export function footprintsOf(
  hold: Partial<FootprintHold> | undefined,
  group: FootprintGroup = BY_POOL,
): Footprints {
  const spec = {
    workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
    group,
    node: { label: { key: "test.berth.dev/agent" } },
    ...(hold && {
      hold: {
        resource: { group: GROUP, version: "v1", resource: "pools" },
        finalizer: FINALIZER,
        ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
        ...hold,
      },
    }),
  } satisfies NodeFootprintSpec;
  const compiled = compileFootprints({
    sources: [{ source: "cluster", documents: [{ name: "agent", spec }] }],
  });
  if (compiled.faults.length > 0) throw new Error(compiled.faults.map(({ message }) => message).join("; "));
  return compiled;
}

export const noFootprints = (): Footprints =>
  compileFootprints({ sources: [{ source: "cluster", documents: [] }] });

export interface HoldWorld extends AsyncDisposable {
  readonly held: HeldOwners;
  readonly events: readonly EventInput[];
  want(footprints: Footprints): void;
}

/** Berth, as far as holds go. Runs until it is disposed of. */
export function startHolds(client: KubeClient, footprints: Footprints): HoldWorld {
  const place = { client, cluster: clusterName("c"), clock: systemClock };
  const common = { ...place, informers: createSharedInformers(place), log: createSilentLogger() };
  const events: EventInput[] = [];
  const held = new HeldOwners({ onChange: () => undefined });
  const seen = watchFootprints(common, {
    onNode: () => undefined,
    onEverything: () => undefined,
    holds: () => watches,
  });
  const watches = new HoldWatches({
    ...common,
    observations: seen.observations,
    onOwner: (key) => controller.enqueue(key),
  });
  const controller = createController<OwnerKey>({
    ...common,
    name: "footprint-holds",
    toText: toOwnerText,
    reconcile: createHoldReconciler({
      client,
      watches,
      observations: { ...seen.observations, podsOf: (footprint, among) => seen.podsOf(footprint, among) },
      held,
      events: { record: (event) => events.push(event) },
      clock: systemClock,
    }),
  });
  const want = (next: Footprints): void => {
    watches.want(next);
    seen.want([...new Set([...next.footprints, ...watches.footprints])]);
  };
  want(footprints);
  const abort = new AbortController();
  const manager = new Manager({ ...common, always: [[...seen.components, watches]], elected: [controller] });
  const run = manager.run(abort.signal);
  return {
    held,
    events,
    want,
    [Symbol.asyncDispose]: async () => {
      abort.abort();
      await run;
    },
  };
}

/** An owner with a Deployment, as a controller of its kind would make it. */
export async function createOwner(
  client: KubeClient,
  { namespace, name, replicas = 1 }: { namespace: string; name: string; replicas?: number },
): Promise<KubeObject> {
  const owner = await client.create(owners, { metadata: { namespace, name } }, { namespace });
  const deployment: Deployment = {
    metadata: { name: `${name}-deployment`, namespace, ownerReferences: [controllerOf(owner)] },
    spec: { replicas, ...podsOfPool(owner) },
  };
  await client.create(deployments, deployment, { namespace });
  return owner;
}

/** One that the owner controls itself, with a pod. */
export async function createReplicaSet(
  client: KubeClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<void> {
  const owner = await client.get(owners, { namespace, name });
  await client.create(
    replicaSets,
    {
      metadata: { name: `${name}-set`, namespace, ownerReferences: [controllerOf(owner)] },
      spec: { replicas: 1, ...podsOfPool(owner) },
    },
    { namespace },
  );
}

function controllerOf({ metadata: { name = "", uid = "" } = {} }: KubeObject): OwnerReference {
  return {
    apiVersion: `${GROUP}/v1`,
    kind: "Pool",
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

function podsOfPool({
  metadata: { name = "", uid = "" } = {},
}: KubeObject): Pick<DeploymentSpec, "selector" | "template"> {
  const labels = { pool: name, "pool-uid": uid, agent: "needed" };
  const containers = [{ name: "c", image: "registry.test/a:1" }];
  return {
    selector: { matchLabels: { pool: name } },
    template: { metadata: { labels }, spec: { containers } },
  };
}

export async function podsOfOwner(
  client: KubeClient,
  namespace: string,
  name: string,
): Promise<readonly Pod[]> {
  const { items } = await client.list(pods, { namespace, labelSelector: `pool=${name}` });
  return items;
}

/** `undefined` when it is gone. */
export async function find<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  of: { readonly namespace: string; readonly name: string },
): Promise<T | undefined> {
  try {
    return await client.get(resource, of);
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    throw error;
  }
}
