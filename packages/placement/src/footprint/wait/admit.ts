/**
 * Answers of the footprint webhook about a new pod: a JSON patch that makes it wait for its agent, or nothing. Pure and
 * total: users can send any object, and Berth admits an unreadable one unchanged. Berth refuses no pod.
 */
import type { Container, JsonPatchOperation, Pod } from "@berth/kube";
import * as z from "zod";
import { waitContainer } from "../../api/wait-container.ts";
import type { AdmissionQuestion } from "../../node/admission-question.ts";
import { controllerOf } from "../../node/owner-reference.ts";
import { isMirrorPod, isPodSpec } from "../../node/pod-kind.ts";
import { absentOr, field, listField, sentText, sentTexts, textField } from "../../node/untrusted-json.ts";
import type { Footprint } from "../footprint.ts";
import { hasGroupLabel, isGroupedByOwner } from "../groups.ts";
import { type NeedObservations, podNeeds } from "../needs.ts";

export interface WaitAdmission {
  readonly footprints: readonly Footprint[];
  readonly observations: NeedObservations;
}

export interface WaitQuestion extends AdmissionQuestion {
  /** Namespace of the request: the object itself may not have it yet. */
  readonly namespace?: string | undefined;
  readonly subResource?: string | undefined;
}

export interface WaitAnswer {
  readonly patch: readonly JsonPatchOperation[];
  /** Rules of footprints for which the pod's need is unknown: the pod does not wait for their agents. */
  readonly unknown: readonly string[];
}

const UNCHANGED: WaitAnswer = Object.freeze({ patch: [], unknown: [] });

/**
 * Only at creation: init containers cannot be added later. Berth does not change static pods, and Windows pods have no
 * shell. A second call for the same pod returns an empty patch.
 */
export function admitWait({ footprints, observations }: WaitAdmission, question: WaitQuestion): WaitAnswer {
  const { kind, operation, object, subResource = "" } = question;
  if (kind.kind !== "Pod" || operation !== "CREATE" || subResource !== "") return UNCHANGED;
  const spec = field(object, "spec");
  const pod = isPodSpec(spec) ? readPod(object, question.namespace) : undefined;
  if (pod === undefined || isMirrorPod(pod.metadata) || pod.spec?.os?.name === "windows") return UNCHANGED;
  const waiting: Footprint[] = [];
  const unknown: string[] = [];
  for (const footprint of footprints) {
    if (footprint.wait === undefined || !canBring(pod, footprint)) continue;
    const answer = podNeeds(pod, footprint, observations);
    if (answer === "yes") waiting.push(footprint);
    if (answer === "unknown") unknown.push(footprint.rule);
  }
  return { patch: injectWait(spec, waitContainers(waiting)), unknown };
}

/** May the pod have a group, and so an agent? Berth has not read its owners, so any controller is enough. */
function canBring(pod: Pod, footprint: Footprint): boolean {
  const isControlled = controllerOf(pod.metadata ?? {}) !== undefined;
  return hasGroupLabel(pod, footprint) && (isControlled || !isGroupedByOwner(footprint));
}

const resources = absentOr(z.object({ requests: sentTexts, limits: sentTexts }));
const containers = absentOr(z.array(z.object({ name: z.string(), resources })));

/** The fields by which footprints select pods. */
const sentPod = z.object({
  metadata: z.object({
    name: sentText,
    namespace: sentText,
    labels: sentTexts,
    annotations: sentTexts,
    ownerReferences: absentOr(
      z.array(
        z.object({
          apiVersion: z.string(),
          kind: z.string(),
          name: z.string(),
          uid: z.string(),
          controller: absentOr(z.boolean()),
        }),
      ),
    ),
  }),
  spec: z.object({
    os: absentOr(z.object({ name: sentText })),
    resources,
    containers,
    initContainers: containers,
    volumes: absentOr(
      z.array(
        z.object({
          name: z.string(),
          csi: absentOr(z.object({ driver: z.string() })),
          persistentVolumeClaim: absentOr(z.object({ claimName: z.string() })),
          ephemeral: absentOr(z.object({})),
        }),
      ),
    ),
  }),
});

/** The new pod counts as running. */
function readPod(object: unknown, requestNamespace: string | undefined): Pod | undefined {
  const { metadata, spec } = (sentPod.safeParse(object).data as Pod | undefined) ?? {};
  if (metadata === undefined || spec === undefined) return undefined;
  const namespace = requestNamespace || metadata.namespace || "";
  return { metadata: { ...metadata, namespace }, spec, status: { phase: "Running" } };
}

/** The containers of footprints. If two have the same name, the first one wins. */
export function waitContainers(footprints: readonly Footprint[]): readonly Container[] {
  const containers = new Map<string, Container>();
  for (const { wait } of footprints)
    if (wait && !containers.has(wait.containerName)) containers.set(wait.containerName, waitContainer(wait));
  return [...containers.values()];
}

const INIT = "/spec/initContainers";

/**
 * Puts the containers before all other init containers of a pod. Skips a container if any other container of the pod
 * has its name: names are unique in a pod.
 */
export function injectWait(spec: unknown, containers: readonly Container[]): readonly JsonPatchOperation[] {
  const taken = containerNames(spec);
  const missing = containers.filter(({ name }) => !taken.has(name));
  if (missing.length === 0) return [];
  if (listField(spec, "initContainers").length === 0) return [{ op: "add", path: INIT, value: missing }];
  return missing.map((value, at) => ({ op: "add", path: `${INIT}/${at}`, value }));
}

function containerNames(spec: unknown): ReadonlySet<string> {
  const lists = ["initContainers", "containers", "ephemeralContainers"];
  return new Set(lists.flatMap((list) => listField(spec, list).map((it) => textField(it, "name"))));
}
