/** Makes the pod templates of DaemonSets tolerate the architectures that their images run on. */
import { type DaemonSet, daemonSets, type JsonPatchOperation, type PodSpec } from "@berth/kube";
import {
  type Clock,
  type Lister,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  referenceTo,
} from "@berth/runtime";
import { type Reason, reasons } from "../api/reasons.ts";
import type { EventSink } from "../node/report.ts";
import { contestOf, isStale, type Notice, TemplateMemories, tell, textOf } from "../node/template-memory.ts";
import { patchTemplate } from "../node/template-patch.ts";
import { taintKeys } from "./compile.ts";
import { createDaemonSetMemory, type DaemonSetMemory } from "./daemonset-memory.ts";
import { type DaemonSetDecision, decideDaemonSet } from "./decide-daemonset.ts";
import type { ImageDemand, ImageSight } from "./image-sight.ts";
import { imageUses } from "./images.ts";
import { nothingOpen, type WorkloadObserver } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { lacksFacts } from "./verdict.ts";

export interface DaemonSetReconcilerOptions {
  /**
   * Has to keep metadata, and of the template its labels and annotations and all of its `spec` that says where a pod runs
   * and what of: containers, volumes, tolerations, node selector, operating system, service account, pull secrets.
   */
  readonly daemonSets: Pick<Lister<DaemonSet>, "get">;
  /** `undefined` while the namespaces have not been read, `null` when none of this name has been told of: it is new. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | null | undefined;
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly sight: ImageSight;
  readonly demand: ImageDemand;
  /** A JSON patch; answers the DaemonSet as it is then. Rejects with `ApiError`. */
  readonly patch: (
    namespace: string,
    name: string,
    patch: readonly JsonPatchOperation[],
    signal: AbortSignal,
  ) => Promise<DaemonSet>;
  /** Are nodes tainted with any of these keys, or about to be? Until then images are waited for more patiently. */
  readonly isTainting: (keys: readonly string[]) => boolean;
  readonly observer: WorkloadObserver;
  readonly clock: Clock;
  /** Berth's own namespace. */
  readonly ownNamespace?: string;
  readonly events?: EventSink;
}

/**
 * How long a DaemonSet waits for its images while no node is tainted, ms. What is given for want of better knowledge is
 * never taken back, and nothing suffers meanwhile; but a bootstrap has to end some time.
 */
export const BOOTSTRAP_PATIENCE_MS = 600_000;
/** How soon it is looked again whether policies and namespaces have been read, ms. */
const UNREAD_MS = 1_000;

/**
 * One patch, and so one roll-out, for each verdict that asks for more than the template tolerates. What others take off is
 * put back, three times within ten minutes; then the DaemonSet is left alone for a while (`Contested`).
 */
export function createDaemonSetReconciler(options: DaemonSetReconcilerOptions): Reconcile<ObjectKey> {
  const { observer, clock } = options;
  const memories = new TemplateMemories(createDaemonSetMemory);
  return async (key, { signal }) => {
    const daemonSet = options.daemonSets.get(key);
    const { uid, resourceVersion, deletionTimestamp } = daemonSet?.metadata ?? {};
    const workload = `DaemonSet ${key.namespace}/${key.name}`;
    if (daemonSet === undefined || uid === undefined || deletionTimestamp !== undefined) {
      memories.forget(key);
      // One that is being deleted is still there, may be for long, and keeps nobody waiting.
      if (daemonSet === undefined) observer.gone(workload);
      else observer.decided(workload, nothingOpen);
      return undefined;
    }
    const memory = memories.of(key, uid);
    // A failure whose time is over counts on while it is asked about again, and not as if nothing were known of it.
    for (const question of decide(daemonSet, memory, options)?.wants ?? []) options.demand.want(question);
    const decision = decide(daemonSet, memory, options);
    if (decision === undefined) return { recheckAfterMs: UNREAD_MS };
    observer.decided(workload, decision.outcome);
    const subject: Subject = { daemonSet, key, memory, decision };
    tellFailure(subject, options);
    const { patch, missing, recheckAfterMs } = decision;
    const later = recheckAfterMs === undefined ? undefined : { recheckAfterMs };
    if (patch === undefined || resourceVersion === undefined || isStale(memory, resourceVersion))
      return later;
    const contest = contestOf(memory, missing, clock.monotonic());
    if (contest === undefined) return write({ ...subject, patch, resourceVersion }, options, signal);
    if (contest.started) tellContest(subject, options);
    return { recheckAfterMs: contest.leftMs };
  };
}

interface Subject {
  readonly daemonSet: DaemonSet;
  readonly key: ObjectKey;
  readonly memory: DaemonSetMemory;
  readonly decision: DaemonSetDecision;
}

/** `undefined` while it cannot be told who governs it: policies of some source, or its namespace, are still to be read. */
function decide(
  daemonSet: DaemonSet,
  memory: DaemonSetMemory,
  options: DaemonSetReconcilerOptions,
): DaemonSetDecision | undefined {
  const { sight, ownNamespace, observer } = options;
  const { namespace = "", name = "" } = daemonSet.metadata ?? {};
  const policies = options.policies();
  if (policies === undefined || policies.policy.isUndecided) return undefined;
  const keys = taintKeys(policies);
  const namespaceLabels = options.namespaceLabels(namespace) ?? undefined;
  if (namespaceLabels === undefined && namespace !== ownNamespace) {
    observer.decided(`DaemonSet ${namespace}/${name}`, {
      rule: undefined,
      uncovered: keys,
      phase: "waiting",
    });
    return undefined;
  }
  const now = options.clock.now();
  const heldSince = heldFrom(daemonSet, memory);
  const isPatient =
    heldSince !== undefined && now - heldSince < BOOTSTRAP_PATIENCE_MS && !options.isTainting(keys);
  const decision = decideDaemonSet({
    daemonSet,
    policies: policies.policies,
    ownNamespace,
    keys,
    sight,
    now,
    namespaceLabels,
    heldSince: isPatient ? undefined : heldSince,
  });
  const isWaitedFor = decision.isConcerned && lacksFacts(decision.verdict);
  memory.heldSince = isWaitedFor ? (heldSince ?? now) : undefined;
  return decision;
}

/** Since when these images are waited for; `undefined` when they are others than before. */
function heldFrom({ metadata, spec }: DaemonSet, memory: DaemonSetMemory): number | undefined {
  const template = (spec?.template.spec ?? { containers: [] }) satisfies PodSpec;
  const uses = imageUses(template, metadata?.namespace ?? "");
  const images = uses.map(({ question }) => question.image).join("\n");
  if (images !== memory.images) Object.assign(memory, { images, heldSince: undefined });
  return memory.heldSince;
}

interface Write extends Subject {
  readonly patch: readonly JsonPatchOperation[];
  readonly resourceVersion: string;
}

function write(
  subject: Write,
  options: DaemonSetReconcilerOptions,
  signal: AbortSignal,
): Promise<ReconcileResult | undefined> {
  const { key, memory, decision, patch, resourceVersion } = subject;
  return patchTemplate({
    memory,
    resourceVersion,
    given: decision.missing,
    send: () => options.patch(key.namespace, key.name, patch, signal),
    clock: options.clock,
    onWritten: () => tellWritten(subject, options),
    onRefused: (note) => warn(subject, options, reasons.WriteRefused, note),
  });
}

function tellWritten(subject: Subject, options: DaemonSetReconcilerOptions): void {
  const { missing, verdict } = subject.decision;
  const given = missing.map(textOf).join(", ");
  const note = `its pod template tolerates ${given} from now on, which rolls its pods out: ${verdict.message}`;
  record(subject, options, { reason: reasons.DaemonSetTolerated, note, type: "Normal" });
}

function tellContest(subject: Subject, options: DaemonSetReconcilerOptions): void {
  const given = subject.decision.missing.map(textOf).join(", ");
  const note = `somebody keeps taking ${given} off its pod template: it is left alone for a while; nodes with these taints get no pod of it`;
  warn(subject, options, reasons.Contested, note);
}

/** Once while it lasts. Of images that are only slow nobody is told. */
function tellFailure(subject: Subject, options: DaemonSetReconcilerOptions): void {
  const { kind, reason, message } = subject.decision.verdict;
  const isFailure = kind === "impossible" || kind === "unresolvable";
  if (isFailure && subject.decision.isConcerned) warn(subject, options, reason, message);
}

function warn(subject: Subject, options: DaemonSetReconcilerOptions, reason: Reason, note: string): void {
  record(subject, options, { reason, note, type: "Warning" });
}

function record(
  { daemonSet, memory }: Subject,
  { events }: DaemonSetReconcilerOptions,
  notice: Notice,
): void {
  const regarding = referenceTo(daemonSets, daemonSet);
  tell(memory, events, { regarding, action: "TolerateArchitectures", ...notice });
}
