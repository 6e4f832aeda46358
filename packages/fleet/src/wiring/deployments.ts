/** The controller of WorkloadDeployments: creates, rolls and removes Instances, one at a time. */
import { createObjectReconciler, type Host, type Intent } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import {
  type Change,
  type Controller,
  findCondition,
  keyOf,
  type ObjectKey,
  type Source,
  toKeyText,
  toOwner,
  watchFor,
} from "@berth/runtime";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";
import type { Quota } from "../claims/quota.ts";
import { type DeploymentDecision, decideDeployment } from "../deployment/decide.ts";
import type { FleetSpec } from "../fleet/document.ts";
import type { Creation } from "../network/addresses.ts";
import type { NetworkDecision } from "../network/decide.ts";
import { by, type Caches } from "./caches.ts";
import { creationOf, finalizersTo, statusTo } from "./intents.ts";
import type { FleetMetrics } from "./metrics.ts";
import type { NetworkStep } from "./network-step.ts";
import { OwnCreations, UNSEEN_MS } from "./own-creations.ts";

/** Changes of Instances within this time are one status of their deployment, ms. */
export const COALESCE_MS = 100;

export interface DeploymentsOptions {
  readonly host: Host;
  readonly spec: FleetSpec;
  readonly caches: Caches;
  readonly quota: Quota;
  readonly network: NetworkStep;
  readonly metrics: FleetMetrics;
  /** Asks for another decision about an Instance. */
  readonly recheck: (instance: ObjectKey) => void;
}

/** What a process remembers of one deployment. A restart may lose it. */
interface Memory {
  /** Why the server refused the last creation or deletion of an Instance. */
  refusal?: string | undefined;
  /** Uids of Instances that Berth has deleted, until the cache no longer has them. */
  readonly deleted: Set<string>;
  wasNetworkReady: boolean;
}

export function addDeploymentController(options: DeploymentsOptions): Controller {
  const { host, spec, caches, quota, network, metrics, recheck } = options;
  const { client, clock, cluster, events, runtime } = host;
  const { deployments, networking } = caches;
  const memories = new Map<string, Memory>();
  const made = new OwnCreations(caches.instances, clock);
  const memoryOf = (deployment: WorkloadDeployment): Memory => {
    const id = toKeyText(keyOf(cluster, deployment));
    const memory = memories.get(id) ?? { deleted: new Set(), wasNetworkReady: true };
    memories.set(id, memory);
    return memory;
  };
  const reconcile = createObjectReconciler<WorkloadDeployment, unknown, Decision>({
    resource: workloadDeployments,
    objects: deployments,
    client,
    clock,
    events,
    action: "RunDeployment",
    decide(deployment) {
      if (!caches.instances.synced) return undefined;
      const found = network.of(deployment);
      if (found === undefined) return undefined;
      const { namespace = "", uid = "" } = deployment.metadata ?? {};
      const memory = memoryOf(deployment);
      const { refusal, deleted } = memory;
      const owned = caches.instances
        .byIndex(by.deployment, uid)
        .filter(({ metadata }) => metadata?.namespace === namespace);
      if (found.ready && !memory.wasNetworkReady)
        for (const instance of owned) recheck(keyOf(cluster, instance));
      memory.wasNetworkReady = found.ready;
      const present = new Set(owned.map(({ metadata }) => metadata?.uid));
      for (const one of deleted) if (!present.has(one)) deleted.delete(one);
      const isGoing = deployment.metadata?.deletionTimestamp !== undefined;
      const unseen = isGoing ? made.of(deployment) : [];
      const decision = decideDeployment({
        deployment,
        instances: [...owned, ...unseen],
        instanceNamed: (name) => caches.instances.get({ cluster, namespace, name }),
        deleted,
        network: toStep(network.state, found),
        hasQuota: spec.quota !== undefined,
        isQuotaReachable: !quota.isDown(namespace),
        ...(refusal !== undefined && { refusal }),
        nowMs: clock.now(),
      });
      const intents = toIntents(deployment, decision, found.create);
      return { ...decision, ...(unseen.length > 0 && { recheckAfterMs: UNSEEN_MS }), intents };
    },
    done(deployment, { do: action, on }, stored) {
      if (on?.resource !== instances) return;
      if (action === "create") made.note(stored);
      const memory = memoryOf(deployment);
      memory.refusal = undefined;
      if (action === "delete") memory.deleted.add(on.seen?.metadata?.uid ?? "");
    },
    withheld(deployment, { message }, _restMs, { on }) {
      if (on?.resource !== instances) return;
      const memory = memoryOf(deployment);
      if (memory.refusal === message) return;
      memory.refusal = message;
      // The status says it at once, and not with the next change.
      controller.enqueue(keyOf(cluster, deployment), { immediate: true });
    },
    gone: (key) => void memories.delete(toKeyText(key)),
  });
  const { kind, group } = workloadDeployments;
  const ofOwner = toOwner({ cluster, kind, group });
  const all = (): readonly ObjectKey[] => [...deployments.list()].map((it) => keyOf(cluster, it));
  const sources: Source<ObjectKey>[] = [
    watchFor({ informer: caches.instances, map: ofOwner, immediate: movesOn }),
    // Few of them, and they change seldom.
    ...Object.values(networking ?? {}).map((informer) => watchFor<KubeObject>({ informer, map: all })),
  ];
  const controller = runtime.addController<WorkloadDeployment>({
    name: "workload-deployments",
    for: workloadDeployments,
    immediate: (change) => change.type !== "updated" || isNewSpec(change),
    sources,
    queue: { coalesceMs: COALESCE_MS },
    reconcile: metrics.measured("deployment", reconcile),
  });
  return controller;
}

type Decision = DeploymentDecision & { readonly intents: readonly Intent[] };

function isNewSpec(change: Change<KubeObject>): boolean {
  return change.type === "updated" && change.old.metadata?.generation !== change.object.metadata?.generation;
}

/** Only what lets the next Instance be created, replaced or removed is urgent. */
function movesOn(change: Change<Instance>): boolean {
  if (change.type !== "updated") return true;
  return isReady(change.old) !== isReady(change.object);
}

function isReady({ status }: Instance): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

function toStep(state: NetworkStep["state"], { ready, location, blocked }: NetworkDecision) {
  if (state === "off") return { is: "off" } as const;
  return { is: ready ? "ready" : "waiting", ...(location && { location }), ...blocked } as const;
}

function toIntents(
  deployment: WorkloadDeployment,
  decision: DeploymentDecision,
  networked: readonly Creation[],
): readonly Intent[] {
  const { finalizers, create, delete: gone = [], deleteBound, status } = decision;
  const isGoing = deployment.metadata?.deletionTimestamp !== undefined;
  const available = findCondition(status?.conditions, "Available");
  return [
    ...(finalizers ? [finalizersTo(finalizers)] : []),
    ...(isGoing ? [] : networked.map(({ resource, body }) => creationOf(resource, body, "its network"))),
    ...(create ? [creationOf(instances, create, "its Instance")] : []),
    ...gone.map((one) => deletion(one, deleteBound)),
    ...(status ? [statusTo(status, available?.reason ?? "StatusChanged", available?.message ?? "")] : []),
  ];
}

/** @param bound as in an intent. */
function deletion(seen: Instance, bound: "uid" | undefined): Intent {
  return {
    do: "delete",
    on: { resource: instances, seen },
    ...(bound && { bound }),
    reason: "InstanceDeleted",
    message: `Instance ${seen.metadata?.name} is replaced or removed`,
    what: "its Instance",
  };
}
