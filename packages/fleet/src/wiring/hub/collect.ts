/** Copies Instances of cells to the hub. Its keys are Instances of the hub, each in the cluster of its cell. */
import type { Intent } from "@berth/host";
import { type ObjectKey, type Reconcile, type ReconcileContext, toKeyText } from "@berth/runtime";
import { deploymentOfInstance, annotations as keys, labels } from "../../api/keys.ts";
import { parsePlacement } from "../../api/placement.ts";
import { type Instance, type InstanceSpec, instances } from "../../api/workload.ts";
import { sizeLimits, templateSize } from "../../deployment/template-size.ts";
import { uidOf } from "../../hub/cells/seen.ts";
import { decideCopy } from "../../hub/collect/copy.ts";
import type { Corrections } from "../../hub/collect/corrections.ts";
import { upstreamMarks } from "../../hub/federator/namespace.ts";
import { sourceUidOf } from "../../hub/source.ts";
import { creationOf, deletionOf, statusTo } from "../intents.ts";
import { Pace, type PaceOptions } from "./pace.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import { isProvenAbsent } from "./prove-absent.ts";
import { presentClient, Sender } from "./sender.ts";

/** Writes of one copy. The life of an Instance takes less. */
export const COPY_PACE: PaceOptions = { everyMs: 6_000, burst: 12 };
/** Bytes of an Instance's spec beside its template: hash, gates and location. */
const OWN_FIELDS = 2_048;

export function collect(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, hubClient: via, cellPace } = parts;
  const { hub: views } = planes.views;
  const sender = new Sender({ host, set: planes.hub.set, resource: instances, action: "CopyInstance" });
  const pace = new Pace(host.clock, COPY_PACE);
  return async (key, context) => {
    if (know.hubUnread() !== undefined) return undefined;
    const onHub = know.hubKey(key);
    const copy = views.instances.get(onHub);
    const hubDeployment = know.onHub({ ...key, name: deploymentOfInstance(key.name) ?? "" });
    const placement = parsePlacement(hubDeployment?.metadata?.annotations?.[keys.placement]);
    const cell = know.cellOf(key.cluster);
    if (!know.isOfHub(key.namespace)) return undefined;
    // The queue of another cell: what is there is none of this deployment.
    if (cell === undefined || know.cellOfCopy(key) !== key.cluster) return sender.forget(onHub);
    const place = { namespace: key.namespace, name: hubDeployment?.metadata?.name ?? "" };
    const namespace = know.hubNamespace(key.namespace);
    const view = {
      hubDeployment,
      namespaceLabels: (namespace && upstreamMarks(namespace).labels) ?? {},
      // The placement names this cell, or there is none.
      found: placement && know.inCells(place, [cell]).found[0],
      instance: know.inCell<Instance>(cell, key, (it) => it.instances),
      copy,
    };
    const told = decideCopy(view);
    const uid = copy && sourceUidOf(copy);
    if (told.delete !== undefined && view.instance.is === "none" && uid !== undefined) {
      const client = presentClient(planes.cells, key.cluster);
      if (!(await isProvenAbsent(parts.memory, client, instances, key, uid, context)))
        return { recheckAfterMs: LOOK_AGAIN_MS };
    }
    if (isSettled(told)) return copy === undefined ? sender.forget(onHub) : sender.settle(onHub);
    // Whatever the cell says, and however often: one that never rests takes no more than its share.
    const waitMs = cellPace.wait(uidOf(cell)) || pace.take(toKeyText(key));
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    cellPace.take(uidOf(cell));
    const decision = told.read ? decideCopy({ ...view, spec: await specIn(parts, key, context) }) : told;
    if (copy === undefined && decision.create === undefined) return sender.forget(onHub);
    const object: Instance = copy ?? { metadata: { namespace: key.namespace, name: key.name } };
    const { recheckAfterMs } = await sender.send({ key: onHub, object, context }, [
      ...(decision.create ? [creationOf(instances, decision.create, "the copy of the Instance", via)] : []),
      ...(decision.delete
        ? [deletionOf(instances, decision.delete, "the cell does not have it", "the copy", via)]
        : []),
      ...correct(object, decision, "its cell says so"),
    ]);
    return { recheckAfterMs };
  };
}

/** It asks for nothing. */
export function isSettled(decision: object): boolean {
  return Object.values(decision).every((it) => it === undefined);
}

/** `undefined`: it is gone, or too large for a template. */
async function specIn(
  { planes, fleet, host }: HubParts,
  { cluster, namespace, name }: ObjectKey,
  { signal }: ReconcileContext,
): Promise<InstanceSpec | undefined> {
  const engaged = planes.cells.get(cluster);
  // A list: the hub may list Instances of cells, and needs no more rights for one.
  const one = { namespace, fieldSelector: `metadata.name=${name}`, signal };
  const { items = [] } = (await engaged?.client.list(instances, one)) ?? {};
  const spec = items[0]?.spec;
  const { template } = sizeLimits(fleet.spec.template);
  if (spec === undefined || templateSize(spec) <= template + OWN_FIELDS) return spec;
  host.log.warn("an Instance of a cell is too large to be copied", { cell: cluster, namespace, name });
  return undefined;
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
