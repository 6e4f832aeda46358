/**
 * Builds the answers of the architecture webhooks: JSON patches, and refusals of pods that can run nowhere. Pure and
 * total: Berth admits an object that it cannot read unchanged. Any client that reaches the port may ask, so an answer
 * only reads facts in memory. Berth looks up images for stored pods only. The API server may ask twice about a pod
 * (`reinvocationPolicy: IfNeeded`). The second answer only adds what the first lacked.
 */
import type { JsonPatchOperation, PodSpec, Toleration } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { silencing, warn } from "../api/warnings.ts";
import type { AdmissionQuestion } from "../node/admission-question.ts";
import type { Instant } from "../node/capability.ts";
import { recordTolerations } from "../node/given-tolerations.ts";
import { isMirrorPod, isPodSpec } from "../node/pod-kind.ts";
import { field, isRecord, listField, textField, textMapField } from "../node/untrusted-json.ts";
import { taintKeys } from "./compile.ts";
import { TEMPLATE_TOLERATIONS } from "./decide-daemonset.ts";
import { ARCHITECTURES_ANNOTATION } from "./document.ts";
import { type GovernContext, governing, isHeldFor, isOrdinary, mayBeHeldFor } from "./govern.ts";
import type { ImageObservations } from "./image-observations.ts";
import { imageUses } from "./images.ts";
import { addGate, liftGate, narrow } from "./pod-patch.ts";
import type { PodVerdict } from "./pod-view.ts";
import { ARCHITECTURE, type ArchitecturePolicyInForce, refusesImpossible } from "./policy.ts";
import { appendTolerations, coverOf, hasTolerationOf, POD_TOLERATIONS } from "./tolerations.ts";
import { freshly, isSettled, judge, lacksFacts } from "./verdict.ts";
import { listText } from "./verdict-text.ts";

export interface ArchitectureAdmission extends GovernContext {
  /** Labels of a namespace; `undefined` while they are not known. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  readonly observations: ImageObservations;
  readonly now: Instant;
}

export interface NodeArchitectures {
  /** `undefined`: there is no such node, or it does not say. */
  readonly architectureOf: (node: string) => string | undefined;
}

export interface ArchitectureQuestion extends AdmissionQuestion {
  /** From the request: the object itself may not have its namespace yet. */
  readonly namespace?: string | undefined;
  readonly subResource?: string | undefined;
}

export type ArchitectureAnswer =
  | {
      readonly allowed: true;
      readonly patch: readonly JsonPatchOperation[];
      readonly warnings?: readonly string[];
    }
  | { readonly allowed: false; readonly message: string };

const UNCHANGED: ArchitectureAnswer = Object.freeze({ allowed: true, patch: [] });

/** The fields of a pod as the client sent it. */
interface SentPod {
  readonly namespace: string;
  readonly metadata: unknown;
  readonly spec: PodSpec;
  /** Only the entries that Berth can read. */
  readonly tolerations: readonly Toleration[];
}

/**
 * `/mutate-pod`. With all facts, one patch adds tolerations and affinity. Without them, it adds the scheduling gate
 * where a policy narrows, and the controller does the rest. A pod that has a node stays unchanged.
 */
export function admitPod(context: ArchitectureAdmission, question: ArchitectureQuestion): ArchitectureAnswer {
  const { kind, operation, object, subResource = "" } = question;
  if (kind.kind !== "Pod" || operation !== "CREATE" || subResource !== "") return UNCHANGED;
  const pod = readPod(object, question.namespace);
  if (pod === undefined || isMirrorPod(pod.metadata)) return UNCHANGED;
  if (textField(pod.spec, "nodeName") !== "") return UNCHANGED;
  const judged = judgeSent(context, pod);
  if (judged === undefined) return admitUnknown(context, pod);
  const { policy } = judged;
  let { verdict } = judged;
  if (verdict.kind === "impossible" && policy !== undefined && isOrdinary(pod) && refusesImpossible(policy)) {
    // Berth looks up no images of a refused pod. If facts may be old, it admits the pod and looks them up.
    const observations: ImageObservations = { look: (image) => context.observations.look(freshly(image)) };
    verdict = (judgeSent({ ...context, observations }, pod) ?? judged).verdict;
    const how = `architecture policy ${policy.name}; the annotation ${ARCHITECTURES_ANNOTATION} of the pod overrides it`;
    if (verdict.kind === "impossible") return { allowed: false, message: `${verdict.message} (${how})` };
  }
  const isHeld = isHeldFor(policy, pod);
  const { missing } = coverOf(pod.tolerations, taintKeys(context), verdict);
  const patch = [
    ...appendTolerations(pod.spec.tolerations, missing, POD_TOLERATIONS),
    ...(isHeld ? narrow(pod.spec, verdict, policy.spec.preferences) : []),
    ...(isHeld && !isSettled(verdict) ? addGate(pod.spec) : liftGate(pod.spec)),
  ];
  return { allowed: true, patch };
}

/**
 * `/validate-pod-image`. The new image of a pod that has a node: the kubelet pulls it there, whatever it runs on. Warns,
 * if Berth knows the image, and refuses nothing.
 */
export function admitImage(
  context: ArchitectureAdmission & NodeArchitectures,
  question: ArchitectureQuestion,
): ArchitectureAnswer {
  const { kind, operation, object, subResource = "" } = question;
  if (kind.kind !== "Pod" || operation !== "UPDATE" || subResource !== "") return UNCHANGED;
  const pod = readPod(object, question.namespace);
  const judged = pod && judgeSent(context, pod);
  const node = textField(pod?.spec, "nodeName");
  const own = context.architectureOf(node);
  if (judged === undefined || own === undefined) return UNCHANGED;
  const found = judged.verdict.images.flatMap(({ use, knowledge, architectures }) => {
    if (architectures === undefined || architectures.includes(own)) return [];
    return `${use.where} (${knowledge.name}) runs on ${listText(architectures)}, and the node ${node} is ${own}`;
  });
  const of = { rule: node, ...silencing({ annotations: textMapField(pod?.metadata, "annotations") }) };
  const warnings = found.flatMap((message) => warn(of, reasons.ImageNotForNode, message));
  return {
    ...UNCHANGED,
    ...(warnings.length > 0 && { warnings: warnings.map(({ code, message }) => `${code}: ${message}`) }),
  };
}

/**
 * `/mutate-daemonset-architecture`. Changes a DaemonSet only on creation, or when its pod template changes anyway, so
 * it never starts a roll-out. A client that sends its own copy of the template does not remove our tolerations.
 */
export function admitDaemonSet(
  context: ArchitectureAdmission,
  question: ArchitectureQuestion,
): ArchitectureAnswer {
  const { kind, operation, object, oldObject, subResource = "" } = question;
  if (kind.kind !== "DaemonSet" || subResource !== "") return UNCHANGED;
  const isDue = operation === "CREATE" || (operation === "UPDATE" && !hasSameTemplate(object, oldObject));
  const namespace = question.namespace || textField(field(object, "metadata"), "namespace");
  const template = isDue ? readPod(templateOf(object), namespace) : undefined;
  if (template === undefined) return UNCHANGED;
  const judged = judgeSent(context, template);
  const kept =
    judged === undefined || lacksFacts(judged.verdict) ? keptFrom(context, oldObject, template) : [];
  const given =
    judged === undefined || kept.length > 0
      ? kept
      : coverOf(template.tolerations, taintKeys(context), judged.verdict).missing;
  const metadata = field(object, "metadata");
  // Annotations that are not a map count as absent.
  const hasAnnotations = isRecord(field(metadata, "annotations"));
  const annotations = hasAnnotations ? textMapField(metadata, "annotations") : undefined;
  const patch = [
    ...appendTolerations(template.spec.tolerations, given, TEMPLATE_TOLERATIONS),
    ...recordTolerations(ARCHITECTURE, annotations, given),
  ];
  return { allowed: true, patch };
}

/**
 * Without all facts, a template with the same images keeps its tolerations. Another replica may have added them with
 * facts that this replica lacks. Removing and adding them again would cause two roll-outs.
 */
function keptFrom(context: ArchitectureAdmission, oldObject: unknown, template: SentPod): Toleration[] {
  const old = readPod(templateOf(oldObject), template.namespace);
  if (old === undefined || imagesOf(old) !== imagesOf(template)) return [];
  const lacking = taintKeys(context).filter((key) => !hasTolerationOf(template.tolerations, key));
  return old.tolerations.filter((it) => lacking.some((key) => hasTolerationOf([it], key)));
}

function imagesOf({ spec, namespace }: SentPod): string {
  return imageUses(spec, namespace)
    .map(({ question }) => question.image)
    .join("\n");
}

/** @returns `undefined` while the namespace is unknown: Berth cannot tell then which policy governs the pod. */
function judgeSent(
  context: ArchitectureAdmission,
  { namespace, metadata, spec }: SentPod,
): { readonly policy: ArchitecturePolicyInForce | undefined; readonly verdict: PodVerdict } | undefined {
  const namespaceLabels = context.namespaceLabels(namespace);
  if (namespaceLabels === undefined && namespace !== context.ownNamespace) return undefined;
  const labels = textMapField(metadata, "labels");
  const policy = governing(context, { namespace, namespaceLabels, labels });
  const annotations = textMapField(metadata, "annotations");
  const verdict = judge({ namespace, annotations, spec, policy }, context.observations, { now: context.now });
  return { policy, verdict };
}

/** Holds the pod if a policy that narrows may govern it. The controller lifts the gate if none does. */
function admitUnknown({ policies }: ArchitectureAdmission, pod: SentPod): ArchitectureAnswer {
  const labels = textMapField(pod.metadata, "labels");
  const mayHold = policies.some((policy) => mayBeHeldFor(policy, pod, labels));
  return mayHold ? { allowed: true, patch: addGate(pod.spec) } : UNCHANGED;
}

/** Comparing text works because the API server writes both templates with the same field order. */
function hasSameTemplate(a: unknown, b: unknown): boolean {
  return JSON.stringify(templateOf(a)) === JSON.stringify(templateOf(b));
}

function templateOf(object: unknown): unknown {
  return field(field(object, "spec"), "template");
}

function readPod(object: unknown, namespace: string | undefined): SentPod | undefined {
  const metadata = field(object, "metadata");
  const spec = field(object, "spec");
  const tolerations = field(spec, "tolerations");
  if (!isPodSpec(spec) || (tolerations !== undefined && !Array.isArray(tolerations))) return undefined;
  return {
    namespace: namespace || textField(metadata, "namespace"),
    metadata,
    spec,
    tolerations: listField(spec, "tolerations").filter((it): it is Toleration => isRecord(it)),
  };
}
