/** The controller of Instances: sees, decides, and carries out. One reconciler writes an Instance. */
import { CarryOut, earliest, type Host, type Intent } from "@berth/host";
import { type KubeObject, pods } from "@berth/kube";
import { type Controller, type ObjectKey, referenceTo, toKeyText, toSelf, watchFor } from "@berth/runtime";
import { labels } from "../api/keys.ts";
import { type Instance, instances } from "../api/workload.ts";
import type { Quota } from "../claims/quota.ts";
import type { FleetSpec } from "../fleet/document.ts";
import { decideInstance } from "../instance/decide.ts";
import type { InstanceDecision, InstanceView, NetworkSeen, News, QuotaSeen } from "../instance/view.ts";
import type { Caches } from "./caches.ts";
import type { FleetMetrics } from "./metrics.ts";

export interface InstancesOptions {
  readonly host: Host;
  readonly spec: FleetSpec;
  readonly caches: Caches;
  readonly quota: Quota;
  readonly networkOf: (instance: Instance) => NetworkSeen;
  readonly metrics: FleetMetrics;
}

export function addInstanceController(options: InstancesOptions): Controller {
  const { host, spec, caches, quota, networkOf, metrics } = options;
  const { runtime, client, cluster, clock, events } = host;
  const news = new WeakMap<Intent, readonly News[]>();
  const carryOut = new CarryOut<Instance>({
    client,
    clock,
    events,
    action: "RunInstance",
    done(object, intent) {
      for (const { type, reason, message: note } of news.get(intent) ?? [])
        events.record({ regarding: referenceTo(instances, object), type, reason, note, action: "RunInstance" });
    },
  });
  const view = (instance: Instance, seen: QuotaSeen): InstanceView => ({
    instance,
    nowMs: clock.now(),
    catalog: spec.catalog,
    source: spec.cell,
    quota: seen,
    network: networkOf(instance),
    provider: caches.pods === undefined ? { is: "external" } : { is: "pods", pod: podOf(instance) },
  });
  const podOf = ({ metadata = {} }: Instance) => {
    const { namespace = "", name = "" } = metadata;
    if (caches.pods?.synced !== true) return { is: "unknown", because: "Berth has not read the pods" } as const;
    const value = caches.pods.get({ cluster, namespace, name });
    return value === undefined ? ({ is: "none" } as const) : ({ is: "there", value } as const);
  };
  const uids = new Map<string, string>();
  return runtime.addController<Instance>({
    name: "instances",
    for: instances,
    immediate: () => true,
    sources: caches.pods ? [watchFor({ informer: caches.pods, map: toSelf(cluster), immediate: () => true })] : [],
    reconcile: metrics.measured("instance", async (key: ObjectKey, context) => {
      const id = toKeyText(key);
      const instance = caches.instances.get(key);
      if (instance === undefined) {
        carryOut.forget(id);
        quota.forget(uids.get(id) ?? "");
        uids.delete(id);
        return undefined;
      }
      uids.set(id, instance.metadata?.uid ?? "");
      let seen = view(instance, await quota.see(instance, context.signal));
      let decision = decideInstance(seen);
      const { claim } = decision;
      if (claim !== undefined) {
        const answer =
          claim.do === "create"
            ? await quota.create(instance, claim.claim, context.signal)
            : await quota.delete(instance, claim.claim, context.signal);
        seen = view(instance, answer);
        decision = decideInstance(seen);
      }
      metrics.decided(instance, decision);
      const { recheckAfterMs, waitsFor } = decision;
      if (recheckAfterMs !== undefined) context.log.debug("looks again later", { recheckAfterMs, waitsFor });
      const intents = toIntents(instance, decision, news);
      const sent = await carryOut.send(id, { resource: instances, object: instance }, intents, context);
      const next = earliest(sent.recheckAfterMs, recheckAfterMs);
      return next === undefined ? undefined : { recheckAfterMs: next };
    }),
  });
}

function toIntents(
  instance: Instance,
  { status, gates, finalizers, pod, news }: InstanceDecision,
  told: WeakMap<Intent, readonly News[]>,
): readonly Intent[] {
  const intents: Intent[] = [];
  if (status !== undefined) {
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    const intent: Intent = {
      do: "patch",
      patch: { type: "merge", body: { status } },
      subresource: "status",
      reason: ready?.reason ?? "StatusChanged",
      message: ready?.message ?? "the status changed",
    };
    if (news !== undefined) told.set(intent, news);
    intents.push(intent);
  }
  if (gates !== undefined || finalizers !== undefined)
    intents.push({
      do: "patch",
      patch: {
        type: "merge",
        body: {
          ...(finalizers && { metadata: { finalizers } }),
          ...(gates && { spec: { controller: { schedulingGates: gates } } }),
        },
      },
      reason: gates === undefined ? "FinalizersChanged" : "GateOpened",
      message: gates === undefined ? "the finalizers changed" : "the Instance may start",
      what: gates === undefined ? "its finalizers" : "its scheduling gates",
    });
  if (pod !== undefined) intents.push(podIntent(instance, pod));
  return intents;
}

function podIntent(instance: Instance, pod: NonNullable<InstanceDecision["pod"]>): Intent {
  const what = "its pod";
  if (pod.do === "delete")
    return {
      do: "delete",
      on: { resource: pods, seen: pod.pod },
      bound: "uid",
      reason: "PodDeleted",
      message: pod.message,
      what,
    };
  return {
    do: "create",
    on: { resource: pods, seen: undefined },
    body: pod.pod satisfies KubeObject,
    reason: "PodCreated",
    message: `the pod of Instance ${instance.metadata?.name} is created`,
    what,
  };
}

/** The deployment of an Instance, in its namespace. */
export function deploymentOf({ metadata }: Instance): string | undefined {
  return metadata?.labels?.[labels.deploymentName];
}
