/** The controller of Instances: sees, decides, and carries out. One reconciler writes an Instance. */
import type { Intent, ObjectDecision } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import { findCondition, isConditionTrue, type ObjectKey } from "@berth/runtime";
import { isReflection } from "../api/elsewhere.ts";
import { annotations } from "../api/keys.ts";
import { type Instance, instances } from "../api/workload.ts";
import { decideInstance } from "../instance/decide.ts";
import type { InstanceDecision, PodMemory } from "../instance/view.ts";
import { addFleetController, type FleetParts } from "./controller.ts";
import { creationOf, deletionOf, finalizersTo, statusTo } from "./intents.ts";
import type { PodSight } from "./pod-sight.ts";

/** Until the next try to delete the claim of an Instance that is gone, ms. */
const SWEEP_AGAIN_MS = 15_000;

interface Decision extends ObjectDecision {
  readonly waitsFor?: string | undefined;
}

export function addInstanceController(parts: FleetParts, sight: PodSight): void {
  const { host, fleet, views, quota, network, metrics, asked } = parts;
  const { client, clock } = host;
  /** The answer of the API server, by `list`: no other permission is needed. */
  const uidOf = async ({ namespace, name }: ObjectKey, signal: AbortSignal): Promise<string | undefined> => {
    const only = { namespace, fieldSelector: `metadata.name=${name}`, metadataOnly: true, signal };
    const { items } = await client.list(instances, only);
    return items[0]?.metadata?.uid;
  };
  const sweep = (key: ObjectKey, uid: string | undefined): boolean =>
    views.instances.synced && quota.sweep(key, uid, (signal) => uidOf(key, signal));
  const runsPods = (): boolean => fleet.spec.provider === "pods";
  addFleetController<Instance, Past, Decision>(parts, asked.instances, {
    name: "instances",
    counted: "instance",
    objects: views.instances,
    resource: instances,
    action: "RunInstance",
    steps: MAX_STEPS,
    async look(instance, key, signal) {
      if (isReflection(instance)) return undefined;
      sweep(key, instance.metadata?.uid);
      return runsPods() ? await sight.look(instance, signal) : undefined;
    },
    decide(instance, past, { name }, refusals) {
      if (isReflection(instance)) return {};
      const nowMs = clock.monotonic();
      past.sinceMs ??= nowMs;
      const seen = quota.see(instance);
      const pod = sight.see(instance);
      const memory = pod.is === "there" ? remembered(past, instance, pod.value, nowMs) : undefined;
      const decision = decideInstance({
        instance,
        nowMs: clock.now(),
        rules: fleet.spec,
        source: fleet.spec.cell,
        knownMs: nowMs - past.sinceMs,
        quota: seen,
        network: network.seenBy(instance),
        provider: runsPods() ? { is: "pods", pod, refusal: refusals.get(name), memory } : { is: "external" },
      });
      if (decision.claim !== undefined) quota.change(instance, decision.claim);
      metrics.decided(instance, decision, seen);
      const { recheckAfterMs, waitsFor } = decision;
      return { recheckAfterMs, waitsFor, intents: toIntents(decision) };
    },
    withheld(instance, _why, _restMs, { on }) {
      if (on?.resource === pods) sight.doubt(instance);
    },
    waits(instance, { waitsFor }, { recheckAfterMs, isBehind, log }) {
      const requeue = metrics.requeued(instance, isBehind ? "conflict" : "pending");
      log.debug("looks again later", { recheckAfterMs, waitsFor, ...requeue });
    },
    gone: (key) => (sweep(key, undefined) ? SWEEP_AGAIN_MS : undefined),
    forgotten(uid) {
      quota.forget(uid);
      sight.forget(uid);
    },
  });
}

/** Counts the ends of its Pods, in `past`. */
function remembered(past: Partial<Past>, { status }: Instance, pod: Pod, nowMs: number): PodMemory {
  const { uid } = pod.metadata ?? {};
  const known = past.pod?.uid === uid ? past.pod : undefined;
  const hasEnded = pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded";
  const before = isConditionTrue(status?.conditions, "Ready") ? 0 : (past.pod?.ended ?? 0);
  const sinceMs = known?.sinceMs ?? nowMs;
  const ended = before + (hasEnded && known?.hasEnded !== true ? 1 : 0);
  past.pod = { uid, sinceMs, hasEnded, ended };
  return { knownMs: nowMs - sinceMs, ended: Math.max(1, ended) };
}

/** The most in one run: a status, the gates, and the pod. */
const MAX_STEPS = 3;

function toIntents({ status, gates, finalizers, adopts, pod, news }: InstanceDecision): readonly Intent[] {
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
  if (first !== undefined && news !== undefined) intents[0] = { ...first, news };
  if (pod?.do === "create") intents.push(creationOf(pods, pod.pod, "its pod"));
  if (pod?.do === "delete") intents.push(deletionOf(pods, pod.pod, pod.message, "its pod"));
  return intents;
}

/** What a process remembers of one Instance. A restart may lose it. */
interface Past {
  /** When it was first seen, monotonic ms. */
  sinceMs: number;
  /** Its Pod, and since when it is known, monotonic ms. */
  pod: Pick<PodMemory, "ended"> & {
    readonly uid: string | undefined;
    readonly sinceMs: number;
    readonly hasEnded: boolean;
  };
}
