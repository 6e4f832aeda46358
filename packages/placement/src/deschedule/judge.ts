/** Decides whether a pod has lost its ground under one policy. Pure. */
import type { Node, Pod, Taint } from "@berth/kube";
import { DO_NOT_DISRUPT, SAFE_TO_EVICT, undisruptedMs, whyGoing } from "../api/autoscaler.ts";
import { type Reason, reasons } from "../api/reasons.ts";
import { ownValue } from "../node/mark.ts";
import { controllerOf } from "../node/owner-reference.ts";
import { isDaemonSetPod, isMirrorPod } from "../node/pod-kind.ts";
import { matchesNodeSelectorTerms, matchesSelector } from "../node/selector.ts";
import { tolerates } from "../node/tolerations.ts";
import type { Protection } from "./document.ts";
import { DESCHEDULE_KEY, EVERY, EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION } from "./document.ts";
import { type KeptPodSpec, MAX_ENTRIES } from "./fit-size.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

type Labels = Readonly<Record<string, string>>;

export interface JudgeObservations {
  /** `null`: there is no such namespace. `undefined`: not known yet. */
  readonly namespaceLabels: (name: string) => Labels | null | undefined;
  /** The value of a PriorityClass. `null`: there is no such class. `undefined`: not known yet. */
  readonly priorityOf: (className: string) => number | null | undefined;
  /** The keys that rules for labels write. `undefined`: not known yet. */
  readonly derivedKeys: () => ReadonlySet<string> | undefined;
  /** True when Berth is about to write this label, or cannot decide about it now. Then it does not count as gone. */
  readonly isUnsettled: (node: Node, key: string) => boolean;
}

export type Verdict =
  /** The policy is not about the pod. */
  | { readonly state: "outside" }
  | { readonly state: "stays"; readonly reason: Reason; readonly message: string }
  | { readonly state: "fits" }
  | { readonly state: "unknown"; readonly message?: string }
  /** `message`: what is wrong, as the end of a sentence about the pod: `asks for label gpu=true, and its node lacks it`. */
  | { readonly state: "lost"; readonly message: string };

/** Classes and values from which on a pod is system-critical (pkg/apis/scheduling, `SystemCriticalPriority`). */
const SYSTEM_CLASSES: ReadonlySet<string> = new Set(["system-cluster-critical", "system-node-critical"]);
const SYSTEM_PRIORITY = 2_000_000_000;

const outside: Verdict = { state: "outside" };
const fits: Verdict = { state: "fits" };
const unknown: Verdict = { state: "unknown" };
const tooLong = {
  reason: reasons.FitUnknown,
  message: `its selectors, affinity, tolerations, spread constraints, requests and host ports have more than ${MAX_ENTRIES} entries`,
} as const;

/** @param pod as `slimPod` keeps it, which bounds the work. @param node the pod's own; `undefined`: unknown, or deleted. */
export function judge(
  pod: Pod,
  node: Node | undefined,
  policy: DeschedulePolicyInForce,
  observations: JudgeObservations,
): Verdict {
  if (isEnding(pod)) return outside;
  const { spec } = policy;
  const { isCut }: KeptPodSpec = pod.spec ?? { containers: [] };
  const scoped = scopedKeys(pod, policy, observations);
  if (!isCut && spec.taints.length === 0 && scoped?.length === 0) return outside;
  const namespace = observations.namespaceLabels(pod.metadata?.namespace ?? "");
  const threshold = thresholdOf(policy, observations);
  if (namespace === undefined || scoped === undefined || threshold === undefined) return unknown;
  if (!matchesSelector(spec.podSelector, pod.metadata?.labels)) return outside;
  if (!matchesSelector(spec.namespaceSelector, namespace ?? {})) return outside;
  const why = whyItStays(pod, namespace ?? {}, spec.include, threshold) ?? (isCut && tooLong);
  if (why) return { state: "stays", ...why };
  if (node === undefined) return unknown;
  const going = whyGoing(node);
  if (going !== undefined)
    return { state: "unknown", message: `Berth leaves the pods of its node, which ${going}` };
  const lacking = failingKeys(pod, node).filter((key) => scoped.includes(key));
  if (lacking.some((key) => observations.isUnsettled(node, key))) return unknown;
  const taint = node.spec?.taints?.find((it) => isRefusing(it, spec.taints, pod));
  if (lacking.length === 0 && taint === undefined) return fits;
  return { state: "lost", message: describeLoss(pod, node, lacking, taint) };
}

/** Is the policy about this pod, wherever it is? */
export function isAbout(pod: Pod, policy: DeschedulePolicyInForce, observations: JudgeObservations): boolean {
  const { state } = judge(pod, undefined, policy, observations);
  return state !== "outside" && state !== "stays";
}

/** True for a pod that Berth never counts: it has no node, or has ended, or is being deleted, or is of its kubelet. */
function isEnding({ metadata, spec, status }: Pod): boolean {
  return (
    !spec?.nodeName ||
    metadata?.deletionTimestamp !== undefined ||
    status?.phase === "Succeeded" ||
    status?.phase === "Failed" ||
    isMirrorPod(metadata)
  );
}

function whyItStays(
  { metadata = {}, spec }: Pod,
  namespace: Labels,
  include: readonly Protection[],
  threshold: number | null,
): { readonly reason: Reason; readonly message: string } | undefined {
  const { annotations = {} } = metadata;
  const optedOut = (message: string) => ({ reason: reasons.EvictionOptedOut, message });
  if (ownValue(annotations, DESCHEDULE_KEY) === "ignore")
    return optedOut(`it has the annotation ${DESCHEDULE_KEY}: ignore`);
  if (undisruptedMs(metadata) === Number.POSITIVE_INFINITY)
    return optedOut(`it has the annotation ${DO_NOT_DISRUPT}: true`);
  if (ownValue(annotations, SAFE_TO_EVICT) === "false")
    return optedOut(`it has the annotation ${SAFE_TO_EVICT}: false`);
  if (ownValue(namespace, DESCHEDULE_KEY) === "ignore")
    return optedOut(`its namespace has the label ${DESCHEDULE_KEY}=ignore`);
  if (Object.hasOwn(annotations, PREFER_NO_EVICTION_ANNOTATION))
    return optedOut(`it has the annotation ${PREFER_NO_EVICTION_ANNOTATION}`);
  if (Object.hasOwn(annotations, EVICT_ANNOTATION)) return undefined;
  const { priority = 0 } = spec ?? {};
  if (threshold === null || priority >= threshold)
    return {
      reason: reasons.PodProtected,
      message:
        threshold === null
          ? "there is no PriorityClass of the name that the policy gives as its priorityThreshold"
          : `its priority is ${priority}, and the policy moves pods below ${threshold}`,
    };
  const isLocal = spec?.volumes?.some(({ emptyDir, hostPath }) => (emptyDir ?? hostPath) !== undefined);
  const is: Readonly<Record<Protection, string | undefined | false>> = {
    Bare: controllerOf(metadata) === undefined && "no controller would make it again",
    DaemonSet: isDaemonSetPod(metadata) && "it belongs to a DaemonSet",
    SystemCritical:
      (SYSTEM_CLASSES.has(spec?.priorityClassName ?? "") || priority >= SYSTEM_PRIORITY) &&
      "it is system-critical",
    LocalStorage: isLocal === true && "it has local storage, which would be lost",
  };
  for (const [protection, message] of Object.entries(is) as [Protection, string | false][])
    if (message && !include.includes(protection)) return { reason: reasons.PodProtected, message };
  return undefined;
}

/** `null`: the policy names a class that does not exist, so all its pods stay. `undefined`: not known yet. */
export function thresholdOf(
  { spec: { priorityThreshold } }: DeschedulePolicyInForce,
  { priorityOf }: Pick<JudgeObservations, "priorityOf">,
): number | null | undefined {
  const { name, value = Number.POSITIVE_INFINITY } = priorityThreshold ?? {};
  return name === undefined ? value : priorityOf(name);
}

/** Keys in the scope of the policy that the pod asks for. `undefined`: not known yet. */
export function scopedKeys(
  pod: Pod,
  { spec }: DeschedulePolicyInForce,
  { derivedKeys }: Pick<JudgeObservations, "derivedKeys">,
): readonly string[] | undefined {
  const asked = askedKeys(pod);
  if (asked.length === 0 || spec.keys?.includes(EVERY)) return asked;
  const keys = spec.keys === undefined ? derivedKeys() : new Set(spec.keys);
  return keys && asked.filter((key) => keys.has(key));
}

/** Keys of labels that its node selector and its required node affinity name. */
function askedKeys({ spec }: Pod): readonly string[] {
  const terms = requiredTerms(spec);
  if (spec?.nodeSelector === undefined && terms === undefined) return [];
  const keys = new Set(Object.keys(spec?.nodeSelector ?? {}));
  for (const { matchExpressions = [] } of terms ?? []) for (const { key } of matchExpressions) keys.add(key);
  return [...keys];
}

/** Does the pod ask for one of these keys? For all pods of a node that has changed, so it allocates nothing. */
export function asksForAny({ spec }: Pod, keys: ReadonlySet<string>): boolean {
  for (const key in spec?.nodeSelector) if (keys.has(key)) return true;
  const isAsked = ({ key }: { readonly key: string }): boolean => keys.has(key);
  return requiredTerms(spec)?.some(({ matchExpressions }) => matchExpressions?.some(isAsked)) ?? false;
}

/** Of these keys, those whose requirements the node does not meet. */
function failingKeys({ spec }: Pod, node: Node): readonly string[] {
  const { labels } = node.metadata ?? {};
  const failing = new Set<string>();
  for (const [key, value] of Object.entries(spec?.nodeSelector ?? {}))
    if (ownValue(labels, key) !== value) failing.add(key);
  const terms = requiredTerms(spec);
  if (terms === undefined || matchesNodeSelectorTerms(terms, node)) return [...failing];
  for (const { matchExpressions = [] } of terms)
    for (const one of matchExpressions)
      if (!matchesNodeSelectorTerms([{ matchExpressions: [one] }], node)) failing.add(one.key);
  return [...failing];
}

function requiredTerms(spec: Pod["spec"]) {
  return spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
}

function isRefusing(taint: Taint, keys: readonly string[], { spec }: Pod): boolean {
  const isScoped = keys.includes(EVERY) || keys.includes(taint.key);
  return isScoped && taint.effect === "NoSchedule" && !tolerates(spec?.tolerations, taint);
}

function describeLoss(pod: Pod, node: Node, lacking: readonly string[], taint: Taint | undefined): string {
  const parts = lacking.map((key) => {
    const wanted = ownValue(pod.spec?.nodeSelector, key);
    const value = ownValue(node.metadata?.labels, key);
    const asked = wanted === undefined ? key : `${key}=${wanted}`;
    return `it asks for ${asked}, and its node has ${value === undefined ? "no such label" : `${key}=${value}`}`;
  });
  if (taint !== undefined) {
    const { key, value, effect } = taint;
    parts.push(`it does not tolerate the taint ${key}${value ? `=${value}` : ""}:${effect} of its node`);
  }
  return parts.join("; ");
}
