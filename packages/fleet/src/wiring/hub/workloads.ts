/** The controller of Workloads of all projects. Its keys are Workloads. */
import type { ObjectKey, Reconcile } from "@berth/runtime";
import { finalizers, hubNamespaceOf, annotations as keys } from "../../api/keys.ts";
import { workloads } from "../../api/workload.ts";
import { decideWorkload } from "../../workload/decide.ts";
import { by } from "../reads.ts";
import { workloadIntents } from "../workloads.ts";
import type { HubParts } from "./parts.ts";
import { Sender } from "./sender.ts";

export function projectWorkloads(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, fleet } = parts;
  const { views } = planes;
  const sender = new Sender({ host, set: planes.projects, resource: workloads, action: "PlaceWorkload" });
  return async (key, context) => {
    const { cluster, namespace } = key;
    const states = [views.workloads, views.project.deployments, views.project.namespaces];
    if (states.some((it) => it.state(cluster) !== "synced")) return undefined;
    const workload = views.workloads.get(key);
    if (workload === undefined) return sender.forget(key);
    const of = views.project.namespaces.get({ cluster, namespace: "", name: namespace });
    if (of?.metadata?.uid === undefined) return undefined;
    const namespaceOnHub = hubNamespaceOf(of.metadata.uid);
    const decision = decideWorkload({
      workload,
      deployments: views.project.deployments
        .byIndex(by.workload, workload.metadata?.uid ?? "", cluster)
        .filter(({ metadata }) => metadata?.namespace === namespace),
      deploymentNamed: (name) => views.project.deployments.get({ cluster, namespace, name }),
      // A city that none of them has is unserved until one has.
      cities: know.cities.union(new Set(fleet.spec.cities)),
      // With them from the start, the federator need not write them.
      born: {
        finalizers: [finalizers.federator],
        annotations: { [keys.federationNamespace]: namespaceOnHub },
      },
      nowMs: host.clock.now(),
    });
    const sending = { key, object: workload, context };
    sender.tell(sending, decision.findings);
    const { recheckAfterMs } = await sender.send(sending, workloadIntents(workload, decision));
    return { recheckAfterMs };
  };
}
