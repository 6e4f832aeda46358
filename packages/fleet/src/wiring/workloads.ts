/** The controller of Workloads: one deployment for each city of each placement, and the sum of their statuses. */
import type { Intent, ObjectDecision } from "@berth/host";
import { findCondition } from "@berth/runtime";
import { type Workload, type WorkloadStatus, workloadDeployments, workloads } from "../api/workload.ts";
import { citiesNamed, decideWorkload, type WorkloadDecision } from "../workload/decide.ts";
import { addFleetController, type FleetParts } from "./controller.ts";
import { COALESCE_MS, UNREAD_RECHECK_MS } from "./deployments.ts";
import { creationOf, deletionOf, finalizersTo, statusTo } from "./intents.ts";
import { by } from "./reads.ts";

export function addWorkloadController(parts: FleetParts): void {
  const { host, views, network, asked } = parts;
  const { deployments, networks } = views;
  addFleetController<Workload, unknown, ObjectDecision>(parts, asked.workloads, {
    name: "workloads",
    counted: "workload",
    objects: views.workloads,
    resource: workloads,
    action: "PlaceWorkload",
    queue: { coalesceMs: COALESCE_MS },
    decide(workload) {
      const { namespace = "", uid = "", deletionTimestamp } = workload.metadata ?? {};
      const isGoing = deletionTimestamp !== undefined;
      // What is deleted needs no city: it goes also while the networks are not known.
      const unread = network.state === "unknown" ? network.unread() : undefined;
      if (!deployments.synced || (network.state === "unknown" && unread === undefined && !isGoing))
        return { recheckAfterMs: UNREAD_RECHECK_MS };
      const decision = decideWorkload({
        workload,
        deployments: deployments
          .byIndex(by.workload, uid)
          .filter(({ metadata }) => metadata?.namespace === namespace),
        deploymentNamed: (name) => deployments.find(name, namespace) ?? undefined,
        cities: new Set(network.cities() ?? citiesNamed(workload)),
        citiesUnread: unread,
        cityNote: (city) => network.cityNote(city),
        ...(network.state === "on" && {
          hasNetwork: (of: string, name: string) => Boolean(networks.find(name, of)),
        }),
        nowMs: host.clock.now(),
      });
      return { ...decision, intents: workloadIntents(workload, decision) };
    },
  });
}

export function workloadIntents(
  { status: stored }: Workload,
  { finalizers, create, patch, delete: gone, status }: WorkloadDecision,
): readonly Intent[] {
  return [
    // First: each further request would delay its Instances.
    ...create.map((one) => creationOf(workloadDeployments, one, "its deployment")),
    ...(finalizers ? [finalizersTo(finalizers)] : []),
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
    return { ...statusTo(status, failing.reason, failing.message, stored), announce: "Warning" };
  const { reason = "StatusChanged", message = "" } = findCondition(status.conditions, "Available") ?? {};
  return statusTo(status, reason, message, stored);
}
