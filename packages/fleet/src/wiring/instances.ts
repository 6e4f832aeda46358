/** The controller of Instances: sees, decides, and carries out. One reconciler writes an Instance. */
import { CarryOut, type Intent } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import {
  type Controller,
  earliest,
  findCondition,
  isConditionTrue,
  keyOf,
  type ObjectKey,
  type ReconcileContext,
  referenceTo,
  toKeyText,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { annotations } from "../api/keys.ts";
import { type Instance, instances } from "../api/workload.ts";
import { decideInstance } from "../instance/decide.ts";
import type {
  InstanceDecision,
  InstanceView,
  News,
  PodMemory,
  ProviderSeen,
  QuotaSeen,
} from "../instance/view.ts";
import { noteWrite } from "./caches.ts";
import type { ControllerOptions } from "./controller-options.ts";
import { creationOf, deletionOf, finalizersTo, statusTo } from "./intents.ts";
import type { Requeue } from "./metrics.ts";
import { UNSEEN_MS } from "./own-writes.ts";
import { PodSight } from "./pod-sight.ts";

/** Until the next try to delete the claim of an Instance that is gone, ms. */
const SWEEP_AGAIN_MS = 15_000;

export function addInstanceController(options: Omit<ControllerOptions, "recheck">): Controller {
  const { host, lease, spec, caches, quota, network, metrics } = options;
  const { runtime, client, cluster, clock, events } = host;
  const news = new WeakMap<Intent, readonly News[]>();
  const memories = new Map<string, Memory>();
  const sight = caches.pods && new PodSight({ pods: caches.pods, client, cluster, clock });
  const memoryOf = (object: Instance): Memory | undefined => memories.get(toKeyText(keyOf(cluster, object)));
  const carryOut = new CarryOut<Instance>({
    client,
    clock,
    events,
    action: "RunInstance",
    withheld(object, { message }, restMs, { on }) {
      const memory = memoryOf(object);
      if (memory === undefined || on?.resource !== pods || memory.refusal === message) return;
      const isNew = memory.refusal === undefined;
      memory.refusal = message;
      sight?.doubt(object);
      // The status says it at once, and not with the next change. What does not rest is tried again, in other words.
      if (isNew || restMs !== undefined) controller.enqueue(keyOf(cluster, object), { immediate: true });
    },
    done(object, intent, stored) {
      noteWrite(caches, intent, { resource: instances, object, stored });
      const memory = memoryOf(object);
      if (memory !== undefined && intent.on?.resource === pods) memory.refusal = undefined;
      if (memory !== undefined && intent.on === undefined) memory.stored = stored;
      for (const { type, reason, message: note } of news.get(intent) ?? [])
        events.record({
          regarding: referenceTo(instances, object),
          type,
          reason,
          note,
          action: "RunInstance",
        });
    },
  });
  const view = (instance: Instance, seen: QuotaSeen): InstanceView => ({
    instance,
    nowMs: clock.now(),
    rules: spec,
    source: spec.cell,
    knownMs: clock.monotonic() - (memoryOf(instance)?.sinceMs ?? clock.monotonic()),
    quota: seen,
    network: network.seenBy(instance),
    provider: providerOf(instance),
  });
  const providerOf = (instance: Instance): ProviderSeen => {
    if (sight === undefined) return { is: "external" };
    const pod = sight.see(instance);
    const memory = memoryOf(instance);
    const { refusal } = memory ?? {};
    const known = memory && pod.is === "there" ? remembered(memory, instance, pod.value) : undefined;
    return { is: "pods", pod, ...(refusal !== undefined && { refusal }), ...(known && { memory: known }) };
  };
  const remembered = (memory: Memory, { status }: Instance, { metadata, status: of }: Pod): PodMemory => {
    const { uid } = metadata ?? {};
    const { pod } = memory;
    const isNew = pod?.uid !== uid || pod === undefined;
    const hasEnded = of?.phase === "Failed" || of?.phase === "Succeeded";
    const before = isConditionTrue(status?.conditions, "Ready") ? 0 : (pod?.ended ?? 0);
    const isFirst = hasEnded && (isNew || !pod.hasEnded);
    const sinceMs = isNew ? clock.monotonic() : pod.sinceMs;
    const ended = before + (isFirst ? 1 : 0);
    memory.pod = { uid, sinceMs, hasEnded, ended };
    return { knownMs: clock.monotonic() - sinceMs, ended: Math.max(1, ended) };
  };
  /** The answer of the API server, by `list`: no other permission is needed. */
  const uidOf = async ({ namespace, name }: ObjectKey, signal: AbortSignal): Promise<string | undefined> => {
    const only = { namespace, fieldSelector: `metadata.name=${name}`, metadataOnly: true, signal };
    const { items } = await client.list(instances, only);
    return items[0]?.metadata?.uid;
  };
  const step = async (instance: Instance, context: ReconcileContext): Promise<Step> => {
    const unwatchedMs = await sight?.look(instance, context.signal);
    const seen = quota.see(instance);
    const decision = decideInstance(view(instance, seen));
    if (decision.claim !== undefined) quota.change(instance, decision.claim);
    metrics.decided(instance, decision, seen);
    const { recheckAfterMs, waitsFor } = decision;
    const id = toKeyText(keyOf(cluster, instance));
    const intents = toIntents(decision, news);
    const sent = await carryOut.send(id, { resource: instances, object: instance }, intents, context);
    const memory = memories.get(id);
    const stored: Instance | undefined = memory?.stored;
    if (memory !== undefined) memory.stored = undefined;
    const pod = caches.pods?.get(keyOf(cluster, instance));
    const unseenMs = pod !== undefined && caches.pods?.isUnseen(pod) === true ? UNSEEN_MS : undefined;
    return {
      instance,
      recheckAfterMs: earliest(sent.recheckAfterMs, recheckAfterMs, unseenMs, unwatchedMs),
      waitsFor,
      cause: sent.recheckAfterMs === undefined ? "pending" : "conflict",
      stored: stored?.metadata?.deletionTimestamp === undefined ? stored : undefined,
    };
  };
  const controller = runtime.addController<Instance>({
    name: "instances",
    lease,
    for: instances,
    immediate: () => true,
    sources: caches.pods
      ? [watchFor({ informer: caches.pods, map: toSelf(cluster), immediate: () => true })]
      : [],
    reconcile: metrics.measured("instance", async (key: ObjectKey, context) => {
      const id = toKeyText(key);
      const instance = caches.instances.get(key);
      const isLeft =
        caches.instances.synced && quota.sweep(key, instance?.metadata?.uid, (signal) => uidOf(key, signal));
      const known = memories.get(id)?.uid;
      // A new Instance may have the name of another one before its deletion was looked at.
      if (known !== undefined && known !== instance?.metadata?.uid) {
        quota.forget(known);
        sight?.forget(known);
        memories.delete(id);
      }
      if (instance === undefined) {
        carryOut.forget(id);
        return isLeft ? { recheckAfterMs: SWEEP_AGAIN_MS } : undefined;
      }
      const { uid = "" } = instance.metadata ?? {};
      if (!memories.has(id)) memories.set(id, { uid, sinceMs: clock.monotonic() });
      let last = await step(instance, context);
      for (let steps = 1; steps < MAX_STEPS && last.stored !== undefined; steps++)
        last = await step(last.stored, context);
      const { recheckAfterMs, waitsFor, cause } = last;
      if (recheckAfterMs === undefined) return undefined;
      const requeue = metrics.requeued(last.instance, cause);
      context.log.debug("looks again later", { recheckAfterMs, waitsFor, ...requeue });
      return { recheckAfterMs };
    }),
  });
  return controller;
}

/** One decision about an Instance, and what became of it. */
interface Step {
  readonly instance: Instance;
  /** The Instance as the server stored it: the next decision need not wait until the cache shows it. */
  readonly stored: Instance | undefined;
  readonly recheckAfterMs: number | undefined;
  /** Why it is looked at again then. */
  readonly waitsFor: string | undefined;
  readonly cause: Requeue["cause"];
}

/** The most in one run: a status, the gates, and the pod. */
const MAX_STEPS = 3;

function toIntents(
  { status, gates, finalizers, adopts, pod, news }: InstanceDecision,
  told: WeakMap<Intent, readonly News[]>,
): readonly Intent[] {
  const intents: Intent[] = [];
  if (status !== undefined) {
    const ready = findCondition(status.conditions, "Ready");
    intents.push(statusTo(status, ready?.reason ?? "StatusChanged", ready?.message ?? ""));
  }
  const metadata = {
    ...(finalizers && { finalizers }),
    ...(adopts !== undefined && { annotations: { [annotations.claim]: adopts } }),
  };
  if (gates !== undefined)
    intents.push({
      do: "patch",
      patch: { type: "merge", body: { metadata, spec: { controller: { schedulingGates: gates } } } },
      reason: "GateOpened",
      message: gates.length === 0 ? "the Instance may start" : "one scheduling gate is open",
      what: "its scheduling gates",
    });
  else if (adopts !== undefined)
    intents.push({
      do: "patch",
      patch: { type: "merge", body: { metadata } },
      reason: "ClaimAdopted",
      message: "the claim that the original made counts for the Instance",
      what: "the record of its claim",
    });
  else if (finalizers !== undefined) intents.push(finalizersTo(finalizers));
  const [first] = intents;
  if (first !== undefined && news !== undefined) told.set(first, news);
  if (pod?.do === "create") intents.push(creationOf(pods, pod.pod, "its pod"));
  if (pod?.do === "delete") intents.push(deletionOf(pods, pod.pod, pod.message, "its pod"));
  return intents;
}

/** What a process remembers of one Instance. A restart may lose it. */
interface Memory {
  readonly uid: string;
  /** When it was first seen, monotonic ms. */
  readonly sinceMs: number;
  /** Its Pod, and since when it is known, monotonic ms. */
  pod?: Pick<PodMemory, "ended"> & {
    readonly uid: string | undefined;
    readonly sinceMs: number;
    readonly hasEnded: boolean;
  };
  /** Why the API server refused the last pod. */
  refusal?: string | undefined;
  /** The Instance after the last write, until the next decision. */
  stored?: Instance | undefined;
}
