/** The controller of WorkloadDeployments: creates, rolls and removes Instances, one at a time. */
import { createObjectReconciler, type Intent, type ObjectDecision } from "@berth/host";
import {
  type Change,
  type Controller,
  changed,
  earliest,
  findCondition,
  generationChanged,
  isConditionTrue,
  keyOf,
  type ObjectKey,
  type Source,
  toKeyText,
  toOwner,
  watchFor,
} from "@berth/runtime";
import { deploymentOfInstance, gates } from "../api/keys.ts";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";
import { type DeploymentDecision, decideDeployment, type Relabelling } from "../deployment/decide.ts";
import { handedDownLimits } from "../deployment/template-size.ts";
import { hasGate } from "../instance/tiers.ts";
import type { Creation } from "../network/addresses.ts";
import type { NetworkDecision } from "../network/decide.ts";
import { templateVerdict } from "../pods/keys.ts";
import { by, noteWrite } from "./caches.ts";
import type { ControllerOptions } from "./controller-options.ts";
import { creationOf, finalizersTo, statusTo } from "./intents.ts";
import { networkSources } from "./network-sources.ts";
import type { NetworkStep } from "./network-step.ts";
import { UNSEEN_MS } from "./own-writes.ts";

/** Changes of Instances within this time are one status of their deployment, ms. */
export const COALESCE_MS = 100;
/** Until the next look while a cache is not complete, ms. The end of its first list is no event. */
export const UNREAD_RECHECK_MS = 2_000;

/** What a process remembers of one deployment. A restart may lose it. */
interface Memory {
  /** Why the server refused to create or delete an Instance, or an object of the networks, by its name. */
  readonly refusals: Map<string, string>;
  /** What the network step came to, as text. */
  network?: string;
}

export function addDeploymentController(options: ControllerOptions): Controller {
  const { host, lease, spec, caches, quota, network, metrics, recheck } = options;
  const { client, clock, cluster, events, runtime } = host;
  const { deployments } = caches;
  const limits = handedDownLimits(spec);
  const memories = new Map<string, Memory>();
  const memoryOf = (deployment: WorkloadDeployment): Memory => {
    const id = toKeyText(keyOf(cluster, deployment));
    const memory = memories.get(id) ?? { refusals: new Map() };
    memories.set(id, memory);
    return memory;
  };
  const reconcile = createObjectReconciler<WorkloadDeployment, unknown, ObjectDecision>({
    resource: workloadDeployments,
    objects: deployments,
    client,
    clock,
    events,
    action: "RunDeployment",
    decide(deployment) {
      const { namespace = "", uid = "", deletionTimestamp } = deployment.metadata ?? {};
      // What is deleted needs no network: it goes also while the networks are not known.
      const found = network.of(deployment) ?? (deletionTimestamp === undefined ? undefined : UNKNOWN_NETWORK);
      if (!caches.instances.synced || found === undefined) return { recheckAfterMs: UNREAD_RECHECK_MS };
      const memory = memoryOf(deployment);
      const { refusals } = memory;
      const owned = caches.instances
        .byIndex(by.deployment, uid)
        .filter(({ metadata }) => metadata?.namespace === namespace);
      // No event tells an Instance that its network is ready, or has failed. It may have been looked at while the
      // networks could not be read.
      const step = JSON.stringify([found.ready, found.blocked]);
      if (found.ready || step !== memory.network)
        for (const instance of owned.filter(awaitsNetwork)) recheck(keyOf(cluster, instance));
      memory.network = step;
      const decision = decideDeployment({
        deployment,
        instances: owned,
        instanceNamed: (name) => caches.instances.get({ cluster, namespace, name }),
        network: toStep(network.state, refusedIn(found, refusals)),
        limits,
        hasQuota: spec.quota !== undefined,
        rollHold: () => quota.hold(namespace),
        refusals,
        leftOut: spec.provider === "pods" ? () => templateVerdict(deployment, spec) : undefined,
        nowMs: clock.now(),
      });
      const intents = toIntents(deployment, decision, found.create);
      const unseenMs = owned.some((it) => caches.instances.isUnseen(it)) ? UNSEEN_MS : undefined;
      return { ...decision, recheckAfterMs: earliest(decision.recheckAfterMs, unseenMs), intents };
    },
    done(deployment, intent, stored) {
      noteWrite(caches, intent, { resource: workloadDeployments, object: deployment, stored });
      memoryOf(deployment).refusals.delete(nameOf(intent));
    },
    withheld(deployment, { message }, restMs, intent) {
      if (intent.on === undefined || intent.do === "patch") return;
      const { refusals } = memoryOf(deployment);
      const name = nameOf(intent);
      const known = refusals.get(name);
      refusals.set(name, message);
      // The status says it at once, and not with the next change. What does not rest is tried again, in other words.
      if (known === undefined || (known !== message && restMs !== undefined))
        controller.enqueue(keyOf(cluster, deployment), { immediate: true });
    },
    gone: (key) => void memories.delete(toKeyText(key)),
  });
  const { kind, group } = workloadDeployments;
  const ofOwner = toOwner({ cluster, kind, group });
  /** The owner, and the deployment whose name an Instance of another one takes, or sets free. */
  const ofInstance = (change: Change<Instance>): Iterable<ObjectKey> => {
    const keys = new Map([...ofOwner(change)].map((key) => [key.name, key]));
    const { name = "", namespace = "" } = change.object.metadata ?? {};
    const key = { cluster, namespace, name: deploymentOfInstance(name) ?? "" };
    if (change.type !== "updated" && deployments.get(key) !== undefined) keys.set(key.name, key);
    return keys.values();
  };
  const sources: Source<ObjectKey>[] = [
    watchFor({ informer: caches.instances, map: ofInstance, immediate: movesOn }),
    ...networkSources(caches, cluster, network),
  ];
  const controller = runtime.addController<WorkloadDeployment>({
    name: "workload-deployments",
    lease,
    for: workloadDeployments,
    immediate: generationChanged,
    sources,
    queue: { coalesceMs: COALESCE_MS },
    reconcile: metrics.measured("deployment", reconcile),
  });
  return controller;
}

const UNKNOWN_NETWORK: NetworkDecision = {
  ready: false,
  blocked: { reason: "NetworkProvisioning", message: "Berth has not read the networks of this cluster" },
  create: [],
};

function awaitsNetwork(instance: Instance): boolean {
  return hasGate(instance, gates.network);
}

/** Only what lets the next Instance be created, replaced or removed is urgent. */
const movesOn = changed<Instance>(({ status }) => isConditionTrue(status?.conditions, "Ready"));

function toStep(state: NetworkStep["state"], { ready, location, blocked }: NetworkDecision) {
  if (state === "off") return { is: "off" } as const;
  return { is: ready ? "ready" : "waiting", ...(location && { location }), ...blocked } as const;
}

/** Of the object that the intent creates or deletes. */
function nameOf(intent: Intent): string {
  return ("body" in intent ? intent.body : intent.on?.seen)?.metadata?.name ?? "";
}

/** Says why an object that is to be created is not there yet. */
function refusedIn(found: NetworkDecision, refusals: ReadonlyMap<string, string>): NetworkDecision {
  const [message] = found.create.flatMap(({ body }) => refusals.get(body.metadata?.name ?? "") ?? []);
  const { blocked } = found;
  return message === undefined || blocked === undefined
    ? found
    : { ...found, blocked: { ...blocked, message } };
}

function toIntents(
  deployment: WorkloadDeployment,
  decision: DeploymentDecision,
  networked: readonly Creation[],
): readonly Intent[] {
  const { finalizers, create, delete: gone = [], deleteBound, relabel = [], status } = decision;
  const isGoing = deployment.metadata?.deletionTimestamp !== undefined;
  const available = findCondition(status?.conditions, "Available");
  return [
    ...(finalizers ? [finalizersTo(finalizers)] : []),
    ...(isGoing ? [] : networked.map(({ resource, body }) => creationOf(resource, body, "its network"))),
    ...(create ? [creationOf(instances, create, "its Instance")] : []),
    ...gone.map((one) => deletion(one, deleteBound)),
    ...relabel.map(restoration),
    ...(status ? [statusTo(status, available?.reason ?? "StatusChanged", available?.message ?? "")] : []),
  ];
}

function restoration({ instance, labels }: Relabelling): Intent {
  return {
    do: "patch",
    on: { resource: instances, seen: instance },
    patch: { type: "merge", body: { metadata: { labels } } },
    reason: "LabelsRestored",
    message: `Instance ${instance.metadata?.name} has the labels of its deployment again`,
    what: "the labels of its Instance",
  };
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
