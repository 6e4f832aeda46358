/** Carries out what is decided about unscheduled pods: one patch for each at most, or nothing. */
import {
  type ApiError,
  isApiError,
  isRefusalOfObject,
  type JsonPatchOperation,
  type Pod,
  pods,
} from "@berth/kube";
import {
  type Clock,
  type Lister,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  referenceTo,
  toKeyText,
} from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Finding, Instant } from "../node/capability.ts";
import type { EventSink } from "../node/report.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled, type PodDecision, podName } from "./decide-pod.ts";
import { governing } from "./govern.ts";
import type { ImageDemand, ImageSight } from "./image-sight.ts";
import { imageUses } from "./images.ts";
import type { PodStatusPatch } from "./pod-condition.ts";
import { nothingOpen, type WorkloadObserver } from "./pod-view.ts";
import type { ArchitecturePolicies, ArchitecturePolicyInForce } from "./policy.ts";
import { decideUnknownNamespace } from "./unknown-namespace.ts";

export interface PodReconcilerOptions {
  /** Those without a node, by `spec.nodeName=,status.phase=Pending`. */
  readonly pods: Pick<Lister<Pod>, "get">;
  /** Labels of a namespace; `undefined` while they are not known: its pods wait. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  /** `undefined` until all sources were read: nothing is done. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly ownNamespace?: string | undefined;
  readonly sight: ImageSight;
  readonly demand: ImageDemand;
  /** Rejects with `ApiError`. */
  readonly patchPod: (
    namespace: string,
    name: string,
    patch: readonly JsonPatchOperation[],
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** The status of a pod. Rejects with `ApiError`. */
  readonly patchStatus: (
    namespace: string,
    name: string,
    patch: PodStatusPatch,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly events?: EventSink;
  readonly observer?: WorkloadObserver;
  readonly report?: PodReport;
  readonly clock: Clock;
  /** By key, of the unscheduled pods that were reconciled: the informer tells of each that is gone. */
  readonly memories?: Map<string, PodMemory>;
}

/** For metrics. */
export interface PodReport {
  /** A pod was changed, with the reason of its verdict. */
  changed(reason: Reason): void;
  /** Our gate was lifted so long after the pod was made, ms. */
  lifted(heldMs: number): void;
}

/** What is remembered of a pod while it has no node: little, and nothing that a restart could not do without. */
export interface PodMemory {
  readonly uid: string | undefined;
  readonly rule: string | undefined;
  readonly seenSince: Instant;
  /** The images it names; and since when, where these are others than it was first seen with. */
  images: string;
  imagesSince?: Instant;
  /** The version that was changed last, and when: what has become of it is on its way back to us. */
  changed?: { readonly version: string; readonly at: Instant };
  /** The version whose condition was written. */
  conditioned?: string;
  /** How often a patch of that version met another one. */
  misses: number;
  refusal?: string;
  /** Since when the permission to change it is missing. */
  deniedSince?: Instant;
  /** Nothing is sent before. */
  restUntil?: Instant;
  /** Reasons of its Events. */
  readonly told: Set<Reason>;
}

/** The informer is rarely behind by more. */
const BEHIND_MS = 1000;
/** A pod that still stands as it was after a change was undone by others on the way: tried again, in this pace. */
const UNDONE_MS = 30_000;
/** A version that is refused so often is not behind: its patch itself is refused. */
const MAX_MISSES = 3;
/** A pod that cannot be changed is tried again after this: admission refuses for a moment after a restart as well. */
export const PATCH_RETRY_MS = 30_000;
/** A permission that is missing for longer is told of. The API server refuses all for a moment after a restart. */
const TELL_DENIED_MS = 10_000;

/**
 * Level-based: what a pod lacks now. A patch that meets a newer version of the pod waits for that; one that admission
 * refuses is followed by one that only lifts the gate, and then by nothing for 30 s. A missing permission rejects.
 */
export function createPodReconciler(options: PodReconcilerOptions): Reconcile<ObjectKey> {
  const { clock, demand, observer, events, namespaceLabels, policies, ownNamespace, sight } = options;
  const { memories = new Map() } = options;

  return async (key, context) => {
    const id = toKeyText(key);
    const pod = options.pods.get(key);
    if (pod === undefined || !isUnscheduled(pod)) {
      memories.delete(id);
      // One that is being deleted is still there, for as long as a finalizer stands, and keeps nobody waiting.
      if (pod === undefined) observer?.gone(`Pod ${key.namespace}/${key.name}`);
      else observer?.decided(podName(pod), nothingOpen);
      return undefined;
    }
    const inForce = policies();
    // A policy that is not known yet may govern it.
    if (inForce === undefined || inForce.policy.isUndecided) return undefined;
    const keys = taintKeys(inForce);
    const labels = namespaceLabels(key.namespace);
    const now = clock.now();
    const follow = async (decision: PodDecision, memory: PodMemory): Promise<ReconcileResult | undefined> => {
      observer?.decided(podName(pod), decision.outcome);
      tell(events, pod, decision.finding, memory);
      const work = { key, pod, decision, memory, context };
      const afterMs = (await isConditionOnItsWay(options, work)) ? BEHIND_MS : await carryOut(options, work);
      const recheckAfterMs = earliest(afterMs, decision.recheckAfterMs);
      return recheckAfterMs === undefined ? undefined : { recheckAfterMs };
    };
    if (labels === undefined && key.namespace !== ownNamespace) {
      const memory = recall(memories, id, { pod, policy: undefined, now });
      const view = { pod, policies: inForce.policies, keys, now, seenSince: memory.seenSince };
      return follow(decideUnknownNamespace(view), memory);
    }
    const policy = governing(
      { policies: inForce.policies, ownNamespace },
      { namespace: key.namespace, namespaceLabels: labels, labels: pod.metadata?.labels },
    );
    const memory = recall(memories, id, { pod, policy, now });
    const { refusal, seenSince, imagesSince } = memory;
    const view = { pod, policy, keys, sight, now, seenSince, imagesSince, refusal };
    const decision = decidePod(view);
    if (decision.wants.length === 0) return follow(decision, memory);
    for (const want of decision.wants) demand.want(want);
    // Again: a failure whose time is over counts on while it is asked about, and not as if nothing were known of it.
    return follow(decidePod(view), memory);
  };
}

function recall(
  memories: Map<string, PodMemory>,
  id: string,
  { pod, policy, now }: { pod: Pod; policy: ArchitecturePolicyInForce | undefined; now: Instant },
): PodMemory {
  const { uid } = pod.metadata ?? {};
  const known = memories.get(id);
  const last = known?.uid === uid ? known : undefined;
  const images = imagesOf(pod);
  if (last !== undefined && last.images !== images) {
    Object.assign(last, { images, imagesSince: now });
    last.told.clear();
  }
  if (last !== undefined && last.rule === policy?.rule) {
    if (last.restUntil !== undefined && last.restUntil <= now) {
      delete last.restUntil;
      delete last.refusal;
    }
    return last;
  }
  const memory: PodMemory = {
    uid,
    rule: policy?.rule,
    seenSince: now,
    images,
    misses: 0,
    told: new Set(),
    ...(last?.changed && { changed: last.changed }),
    ...(last?.imagesSince !== undefined && { imagesSince: last.imagesSince }),
  };
  memories.set(id, memory);
  return memory;
}

function imagesOf({ metadata, spec }: Pod): string {
  const uses = imageUses(spec ?? { containers: [] }, metadata?.namespace ?? "");
  return uses.map(({ question }) => question.image).join("\n");
}

/** One Event for each reason: messages of registries differ from look to look, and a registry that is down is now asked, now left alone. */
function tell(
  events: EventSink | undefined,
  pod: Pod,
  finding: Pick<Finding, "reason" | "message"> | undefined,
  memory: PodMemory,
): void {
  if (finding === undefined || memory.told.has(finding.reason)) return;
  memory.told.add(finding.reason);
  const { reason, message: note } = finding;
  events?.record({ regarding: referenceTo(pods, pod), reason, note, type: "Warning", action: "PlacePod" });
}

interface Work {
  readonly key: ObjectKey;
  readonly pod: Pod;
  readonly decision: PodDecision;
  readonly memory: PodMemory;
  readonly context: Parameters<Reconcile<ObjectKey>>[1];
}

/** Writes what is wrong with the condition. @returns true when there is a newer version, which the informer has not told yet. */
async function isConditionOnItsWay(
  { patchStatus }: PodReconcilerOptions,
  { key, pod, decision: { condition, patch }, memory, context }: Work,
): Promise<boolean> {
  const version = pod.metadata?.resourceVersion;
  if (condition === undefined) return false;
  if (memory.conditioned === version) return true;
  try {
    await patchStatus(key.namespace, key.name, condition, context.signal);
    if (version !== undefined) memory.conditioned = version;
    return true;
  } catch (error) {
    if (isApiError(error, "notFound", "conflict", "uidMismatch")) return true;
    // A pod that can be let go does not wait for its condition, whatever keeps that from being written.
    if (!isApiError(error) || error.failure.kind === "aborted" || patch === undefined) throw error;
    return false;
  }
}

/** @returns when to look again, ms. */
async function carryOut(options: PodReconcilerOptions, work: Work): Promise<number | undefined> {
  const { key, pod, decision, memory, context } = work;
  const { namespace, name } = key;
  const { patch, verdict, isLifted } = decision;
  const version = pod.metadata?.resourceVersion;
  const now = options.clock.now();
  if (patch === undefined || version === undefined) {
    // Its gate has gone alone: the rest of the patch is tried again then.
    return memory.restUntil === undefined ? undefined : memory.restUntil - now;
  }
  const notBefore = Math.max(
    memory.restUntil ?? 0,
    memory.changed?.version === version ? memory.changed.at + UNDONE_MS : 0,
  );
  if (notBefore > now) return notBefore - now;
  try {
    await options.patchPod(namespace, name, patch, context.signal);
  } catch (error) {
    if (!isApiError(error)) throw error;
    return afterFailure(error, work, options);
  }
  memory.changed = { version, at: now };
  memory.misses = 0;
  delete memory.deniedSince;
  const { reason, message } = verdict;
  context.log.info("pod placed", { namespace, name, reason, message, lifted: isLifted });
  options.report?.changed(reason);
  const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
  if (isLifted && !Number.isNaN(createdAt)) options.report?.lifted(Math.max(0, now - createdAt));
  if (memory.refusal === undefined) return undefined;
  memory.restUntil = now + PATCH_RETRY_MS;
  return PATCH_RETRY_MS;
}

function afterFailure(
  error: ApiError,
  { decision, memory, pod, context }: Work,
  { events, clock }: PodReconcilerOptions,
): number | undefined {
  const { kind } = error.failure;
  if (kind === "notFound" || kind === "uidMismatch") return undefined;
  if (mayBeBehind(error) && memory.misses < MAX_MISSES) {
    memory.misses += 1;
    return BEHIND_MS;
  }
  memory.misses = 0;
  if (!isRefusalOfObject(error)) {
    const refused = { reason: reasons.PodPatchRefused, message: error.message };
    if (kind === "forbidden") memory.deniedSince ??= clock.now();
    if (clock.now() - (memory.deniedSince ?? clock.now()) >= TELL_DENIED_MS)
      tell(events, pod, refused, memory);
    throw error;
  }
  const isLast = memory.refusal !== undefined || !decision.isLifted;
  memory.refusal = error.message;
  context.log.warn("pod cannot be changed", { pod: podName(pod), error: error.message, givenUp: isLast });
  tell(events, pod, { reason: reasons.PodPatchRefused, message: error.message }, memory);
  if (isLast) memory.restUntil = clock.now() + PATCH_RETRY_MS;
  return isLast ? PATCH_RETRY_MS : 0;
}

/** A `test` that does not hold is answered as invalid, and names no field. */
function mayBeBehind(error: ApiError): boolean {
  const { failure } = error;
  if (failure.kind === "conflict") return true;
  return failure.kind === "invalid" && failure.causes.every(({ field = "" }) => field === "");
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
