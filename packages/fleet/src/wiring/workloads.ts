/** The controller of Workloads: one deployment for each city of each placement, and the sum of their statuses. */
import { createObjectReconciler, type Intent, type ObjectDecision } from "@berth/host";
import { type KubeObject, pathOf } from "@berth/kube";
import {
  type Change,
  type Controller,
  changed,
  findCondition,
  fromStates,
  generationChanged,
  keyOf,
  type ObjectKey,
  type Source,
  watchFor,
} from "@berth/runtime";
import type { Location } from "../api/networking.ts";
import {
  type Workload,
  type WorkloadDeployment,
  type WorkloadStatus,
  workloadDeployments,
  workloads,
} from "../api/workload.ts";
import { citiesNamed, citiesOf, decideWorkload, type WorkloadDecision } from "../workload/decide.ts";
import { by, noteWrite } from "./caches.ts";
import type { ControllerOptions } from "./controller-options.ts";
import { COALESCE_MS, UNREAD_RECHECK_MS } from "./deployments.ts";
import { creationOf, deletionOf, finalizersTo, statusTo } from "./intents.ts";
import { UNSEEN_MS } from "./own-writes.ts";

export function addWorkloadController(options: ControllerOptions): Controller {
  const { host, lease, caches, network, metrics } = options;
  const { client, clock, cluster, events, runtime } = host;
  const { deployments, networking, workloads: all } = caches;
  if (all === undefined) throw new TypeError("Workloads are of mode single only");
  const reconcile = createObjectReconciler<Workload, unknown, ObjectDecision>({
    resource: workloads,
    objects: all,
    client,
    clock,
    events,
    action: "PlaceWorkload",
    decide(workload) {
      const { namespace = "", uid = "", deletionTimestamp } = workload.metadata ?? {};
      const isGoing = deletionTimestamp !== undefined;
      // What is deleted needs no city: it goes also while the networks are not known.
      const unread = network.state === "unknown" ? network.unread() : undefined;
      if (!deployments.synced || (network.state === "unknown" && unread === undefined && !isGoing))
        return { recheckAfterMs: UNREAD_RECHECK_MS };
      const owned = deployments
        .byIndex(by.workload, uid)
        .filter(({ metadata }) => metadata?.namespace === namespace);
      const decision = decideWorkload({
        workload,
        deployments: owned,
        deploymentNamed: (name) => deployments.get({ cluster, namespace, name }),
        cities: new Set(network.cities() ?? citiesNamed(workload)),
        citiesUnread: unread,
        cityNote: (city) => network.cityNote(city),
        ...(network.state === "on" && {
          hasNetwork: (of: string, name: string) =>
            networking?.networks.get({ cluster, namespace: of, name }) !== undefined,
        }),
        nowMs: clock.now(),
      });
      return {
        ...decision,
        ...(owned.some((it) => deployments.isUnseen(it)) && { recheckAfterMs: UNSEEN_MS }),
        intents: toIntents(workload, decision),
      };
    },
    done(workload, intent, stored) {
      noteWrite(caches, intent, { resource: workloads, object: workload, stored });
    },
  });
  const keys = (found: Iterable<Workload>): readonly ObjectKey[] =>
    [...found].map((it) => keyOf(cluster, it));
  /** Also of a Workload that waits for the name of another one's deployment. */
  const ofName = ({ type, object: { metadata } }: Change<WorkloadDeployment>): readonly ObjectKey[] =>
    type === "updated" ? [] : keys(all.byIndex(by.deployment, pathOf(metadata)));
  const ofCities = (location: Location): readonly ObjectKey[] =>
    [...citiesOf([location])].flatMap((city) =>
      network.isServedBeside(location, city) ? [] : keys(all.byIndex(by.city, city)),
    );
  const sources: Source<ObjectKey>[] = [
    watchFor({ informer: deployments, map: ofName }),
    ...(networking
      ? [
          watchFor<Location>({
            informer: networking.locations,
            predicate: changed(({ spec }) => spec),
            map: fromStates(ofCities),
          }),
          // It matters only whether a Network exists.
          watchFor<KubeObject>({
            informer: networking.networks,
            predicate: ({ type }) => type !== "updated",
            map: ({ object: { metadata } }) => keys(all.byIndex(by.network, pathOf(metadata))),
          }),
        ]
      : []),
  ];
  return runtime.addController<Workload>({
    name: "workloads",
    lease,
    for: workloads,
    owns: [workloadDeployments],
    immediate: generationChanged,
    sources,
    queue: { coalesceMs: COALESCE_MS },
    reconcile: metrics.measured("workload", reconcile),
  });
}

function toIntents(
  { status: stored }: Workload,
  { finalizers, create, patch, delete: gone, status }: WorkloadDecision,
): readonly Intent[] {
  return [
    ...(finalizers ? [finalizersTo(finalizers)] : []),
    ...create.map((one) => creationOf(workloadDeployments, one, "its deployment")),
    ...patch.map(
      ({ deployment, body }): Intent => ({
        do: "patch",
        on: { resource: workloadDeployments, seen: deployment },
        patch: { type: "merge", body },
        reason: "WorkloadChanged",
        message: `WorkloadDeployment ${deployment.metadata?.name} follows its Workload`,
        what: "its deployment",
      }),
    ),
    ...gone.map((one) =>
      deletionOf(workloadDeployments, one, "the Workload no longer asks for it", "its deployment"),
    ),
    ...(status ? [statusIntent(stored, status)] : []),
  ];
}

/** A failure that a person has to look at becomes one Event on the Workload: its users may not see its Instances. */
function statusIntent(stored: WorkloadStatus | undefined, status: WorkloadStatus): Intent {
  const failing = findCondition(status.conditions, "Failing");
  if (failing !== undefined && failing.reason !== findCondition(stored?.conditions, "Failing")?.reason)
    return { ...statusTo(status, failing.reason, failing.message), announce: "Warning" };
  const { reason = "StatusChanged", message = "" } = findCondition(status.conditions, "Available") ?? {};
  return statusTo(status, reason, message);
}
