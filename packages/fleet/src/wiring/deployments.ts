/** The controller of WorkloadDeployments: creates, rolls and removes Instances, one at a time. */
import type { Intent, ObjectDecision } from "@berth/host";
import { findCondition } from "@berth/runtime";
import { isElsewhere } from "../api/elsewhere.ts";
import { gates } from "../api/keys.ts";
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";
import { type DeploymentDecision, decideDeployment, type Relabelling } from "../deployment/decide.ts";
import { handedDownLimits } from "../deployment/template-size.ts";
import { hasGate } from "../instance/tiers.ts";
import type { Creation } from "../network/addresses.ts";
import type { NetworkDecision } from "../network/decide.ts";
import { templateVerdict } from "../pods/keys.ts";
import { addFleetController, type FleetParts } from "./controller.ts";
import { creationOf, finalizersTo, statusTo } from "./intents.ts";
import type { NetworkStep } from "./network-step.ts";
import { by } from "./reads.ts";

/** Changes of Instances within this time are one status of their deployment, ms. */
export const COALESCE_MS = 100;
/** Until the next look while a cache is not complete, ms. The end of its first list is no event. */
export const UNREAD_RECHECK_MS = 2_000;

/** What a process remembers of one deployment. A restart may lose it. */
interface Past {
  /** What the network step came to, as text. */
  network: string;
}

export function addDeploymentController(parts: FleetParts): void {
  const { host, fleet, views, quota, network, asked } = parts;
  addFleetController<WorkloadDeployment, Past, ObjectDecision>(parts, asked.deployments, {
    name: "workload-deployments",
    counted: "deployment",
    objects: views.deployments,
    resource: workloadDeployments,
    action: "RunDeployment",
    queue: { coalesceMs: COALESCE_MS },
    decide(deployment, past, _key, refusals) {
      if (isElsewhere(deployment)) return {};
      const { namespace = "", uid = "", deletionTimestamp } = deployment.metadata ?? {};
      // What is deleted needs no network: it goes also while the networks are not known.
      const found = network.of(deployment) ?? (deletionTimestamp === undefined ? undefined : UNKNOWN_NETWORK);
      if (!views.instances.synced || found === undefined) return { recheckAfterMs: UNREAD_RECHECK_MS };
      const owned = views.instances
        .byIndex(by.deployment, uid)
        .filter(({ metadata }) => metadata?.namespace === namespace);
      // No event tells an Instance that its network is ready, or has failed. It may have been looked at while the
      // networks could not be read.
      const step = JSON.stringify([found.ready, found.blocked]);
      if (found.ready || step !== past.network)
        asked.instances.ask(
          owned.filter(awaitsNetwork).map((it) => views.instances.keyOf(it)),
          "high",
          true,
        );
      past.network = step;
      const { spec } = fleet;
      const decision = decideDeployment({
        deployment,
        instances: owned,
        instanceNamed: (name) => views.instances.find(name, namespace) ?? undefined,
        network: toStep(network.state, refusedIn(found, refusals)),
        limits: handedDownLimits(spec),
        hasQuota: spec.quota !== undefined,
        rollHold: () => quota.hold(namespace),
        refusals,
        leftOut: spec.provider === "pods" ? () => templateVerdict(deployment, spec) : undefined,
        nowMs: host.clock.now(),
      });
      return { ...decision, intents: toIntents(deployment, decision, found.create) };
    },
  });
}

const UNKNOWN_NETWORK: NetworkDecision = {
  ready: false,
  blocked: { reason: "NetworkProvisioning", message: "Berth has not read the networks of this cluster" },
  create: [],
};

function awaitsNetwork(instance: Instance): boolean {
  return hasGate(instance, gates.network);
}

function toStep(state: NetworkStep["state"], { ready, location, blocked }: NetworkDecision) {
  if (state === "off") return { is: "off" } as const;
  return { is: ready ? "ready" : "waiting", ...(location && { location }), ...blocked } as const;
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
