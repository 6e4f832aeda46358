/** Shows the copies of the hub in their projects. Its keys are Instances of projects. */
import type { Intent } from "@berth/host";
import { findCondition, type ObjectKey, type Reconcile } from "@berth/runtime";
import { annotations as keys, labels } from "../../api/keys.ts";
import { seenOf } from "../../api/seen.ts";
import { type Instance, type InstanceStatus, instances } from "../../api/workload.ts";
import { decideProjection } from "../../hub/projector/decide.ts";
import { creationOf, deletionOf } from "../intents.ts";
import { correct, deploymentNamed, isSettled } from "./collect.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import { isProvenAbsent } from "./prove-absent.ts";
import { Sender } from "./sender.ts";

export function projector(parts: HubParts): Reconcile<ObjectKey> {
  const { host, planes, know, hubClient } = parts;
  const { hub, project: views } = planes.views;
  const sender = new Sender({ host, set: planes.projects, resource: instances, action: "ShowInstance" });
  return async (key, context) => {
    if (know.project(key.cluster)?.isSynced !== true) return undefined;
    const { namespace, name } = key;
    const projection = views.instances.get(key);
    const named = deploymentNamed(projection ?? { metadata: { name } });
    const deployment = views.deployments.get({ ...key, name: named });
    const hubNamespace =
      deployment?.metadata?.annotations?.[keys.federationNamespace] ??
      projection?.metadata?.labels?.[labels.hubNamespace] ??
      "";
    const unread = know.hubUnread();
    const unknown = { is: "unknown", because: unread ?? "" } as const;
    const copyKey = know.hubKey({ namespace: hubNamespace, name });
    const hubDeployment = know.onHub({ namespace: hubNamespace, name: named });
    const holder = know.holderOf(copyKey);
    const decision = decideProjection({
      deployment,
      copy: unread === undefined ? seenOf(hub.instances.get(copyKey)) : unknown,
      hubDeployment: unread === undefined ? seenOf(hubDeployment) : unknown,
      inCell:
        hubDeployment !== undefined && holder === undefined
          ? { is: "none" }
          : know.inCell<Instance>(know.cellWith(holder ?? ""), copyKey, (it) => it.instances),
      projection,
    });
    const copyUid = projection?.metadata?.labels?.[labels.hubUid];
    if (decision.delete !== undefined && hub.instances.get(copyKey) === undefined && copyUid !== undefined)
      if (!(await isProvenAbsent(parts.memory, hubClient, instances, copyKey, copyUid, context)))
        return { recheckAfterMs: LOOK_AGAIN_MS };
    if (projection === undefined && decision.create === undefined) return sender.forget(key);
    if (isSettled(decision)) return sender.settle(key);
    const object: Instance = projection ?? { metadata: { namespace, name } };
    const via = undefined;
    const { recheckAfterMs } = await sender.send({ key, object, context }, [
      ...(decision.create ? [creationOf(instances, decision.create, "the Instance", via)] : []),
      ...(decision.delete ? [deletionOf(instances, decision.delete, "its cell does not have it", "it")] : []),
      ...correct(object, decision, "the hub says so").map((it) =>
        withNews(it, projection?.status, decision.status),
      ),
    ]);
    return { recheckAfterMs };
  };
}

/** Users cannot read Events of cells. */
function withNews(
  intent: Intent,
  before: InstanceStatus | undefined,
  after: InstanceStatus | undefined,
): Intent {
  const ready = findCondition(after?.conditions, "Ready");
  if (ready === undefined || ready.reason === findCondition(before?.conditions, "Ready")?.reason)
    return intent;
  const type = ready.status === "True" ? "Normal" : "Warning";
  return { ...intent, news: [{ type, reason: ready.reason, message: ready.message }] };
}
