/** Copies Instances of cells to the hub. Its keys are Instances of the hub, each in the cluster of its cell. */
import type { Intent } from "@berth/host";
import { type ObjectKey, type Reconcile, toKeyText } from "@berth/runtime";
import { deploymentOfInstance, annotations as keys, labels } from "../../api/keys.ts";
import { parsePlacement } from "../../api/placement.ts";
import { type Instance, instances } from "../../api/workload.ts";
import { uidOf } from "../../hub/cells/seen.ts";
import { type CopyDecision, decideCopy } from "../../hub/collect/copy.ts";
import type { Corrections } from "../../hub/collect/corrections.ts";
import { upstreamMarks } from "../../hub/federator/namespace.ts";
import { creationOf, deletionOf, statusTo } from "../intents.ts";
import { Pace } from "./pace.ts";
import type { HubParts } from "./parts.ts";
import { Sender } from "./sender.ts";

/** Of one copy. The life of an Instance takes less. */
const STATUS_PACE = { everyMs: 6_000, burst: 10 };

export function collect(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, hubClient: via } = parts;
  const { hub: views } = planes.views;
  const sender = new Sender({ host, set: planes.hub.set, resource: instances, action: "CopyInstance" });
  const pace = new Pace(host.clock, STATUS_PACE);
  return async (key, context) => {
    if (know.hubUnread() !== undefined) return undefined;
    const onHub = know.hubKey(key);
    const copy = views.instances.get(onHub);
    const hubDeployment = know.onHub({ ...key, name: deploymentOfInstance(key.name) ?? "" });
    const placement = parsePlacement(hubDeployment?.metadata?.annotations?.[keys.placement]);
    const cell = know.cellOf(key.cluster);
    // The queue of another cell: what is there is none of this deployment.
    if (cell === undefined || know.cellOfCopy(key) !== key.cluster) return sender.forget(onHub);
    const place = { namespace: key.namespace, name: hubDeployment?.metadata?.name ?? "" };
    const namespace = know.hubNamespace(key.namespace);
    const decision = decideCopy({
      hubDeployment,
      namespaceLabels: (namespace && upstreamMarks(namespace).labels) ?? {},
      found: know.inCells(place).found.find((it) => uidOf(it.cell) === placement?.uid),
      instance: know.inCell<Instance>(cell, key, (it) => it.instances),
      copy,
    });
    if (copy === undefined && decision.create === undefined) return sender.forget(onHub);
    // Whatever the cell says, and however often: one that never rests takes no more than its share.
    const waitMs = isStatusAlone(decision) ? pace.take(toKeyText(key)) : 0;
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    const object: Instance = copy ?? { metadata: { namespace: key.namespace, name: key.name } };
    const { recheckAfterMs } = await sender.send({ key: onHub, object, context }, [
      ...(decision.create ? [creationOf(instances, decision.create, "the copy of the Instance", via)] : []),
      ...(decision.delete
        ? [deletionOf(instances, decision.delete, "the cell does not have it", "the copy", via)]
        : []),
      ...correct(object, decision, "its cell says so"),
    ]);
    return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
  };
}

function isStatusAlone({ create, delete: gone, patch, status }: CopyDecision): boolean {
  return status !== undefined && create === undefined && gone === undefined && patch === undefined;
}

/** Intents about the object itself. */
export function correct(
  object: Instance,
  { patch, status }: Corrections,
  message: string,
): readonly Intent[] {
  if (patch !== undefined)
    return [{ do: "patch", patch: { type: "merge", body: patch }, reason: "LabelsRestored", message }];
  return status === undefined ? [] : [statusTo(status, "StatusMirrored", message, object.status)];
}

/** Of a copy or a projection, the deployment that it says it is of. */
export function deploymentNamed({ metadata }: Instance): string {
  return metadata?.labels?.[labels.deploymentName] ?? deploymentOfInstance(metadata?.name ?? "") ?? "";
}
