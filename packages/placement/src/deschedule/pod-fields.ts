/** What descheduling keeps of each pod and reads of each node. */
import { type FieldMask, keepFields, pick } from "@berth/host";
import type { Affinity, Container, ObjectMeta, Pod, Projection, Volume } from "@berth/kube";
import { DO_NOT_DISRUPT, SAFE_TO_EVICT } from "../api/autoscaler.ts";
import { markFields } from "../node/mark.ts";
import { DESCHEDULE_KEY, EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION } from "./document.ts";
import { asOneContainer } from "./fit-resources.ts";
import { type KeptPodSpec, MAX_ENTRIES, sizeOf } from "./fit-size.ts";
import { wideAntiAffinity } from "./fit-topology.ts";

/** Set by kubelets on the mirrors of static pods. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** Fields of a Node: its marks, and what `findFit` reads. */
export const podFitFields: FieldMask = [...markFields, "metadata.deletionTimestamp", "status.allocatable"];

const ANNOTATIONS = [
  DESCHEDULE_KEY,
  EVICT_ANNOTATION,
  PREFER_NO_EVICTION_ANNOTATION,
  MIRROR_ANNOTATION,
  DO_NOT_DISRUPT,
  SAFE_TO_EVICT,
];

/** The projection of an informer of pods: `slimPod`, and equal texts of many pods share memory. */
export function podProjection(): Projection<Pod> {
  const share = keepFields<Pod>(["metadata", "spec", "status"]);
  return (pod) => share(slimPod(pod));
}

/** Reduces a pod to the fields that descheduling reads. Leaves out empty lists and maps. */
export function slimPod({ metadata, spec, status }: Pod): Pod {
  const ready = (status?.conditions ?? []).filter(({ type }) => type === "Ready");
  return compact<Pod>({
    metadata: metadata && slimMetadata(metadata),
    spec: spec && slimSpec(spec),
    status: compact<NonNullable<Pod["status"]>>({
      phase: status?.phase,
      conditions: ready.map((condition) => pick(condition, ["type", "status"])),
    }),
  });
}

function slimMetadata(metadata: ObjectMeta): ObjectMeta {
  const controller = (metadata.ownerReferences ?? []).filter((owner) => owner.controller === true);
  return compact<ObjectMeta>({
    ...pick(metadata, [
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "creationTimestamp",
      "deletionTimestamp",
      "labels",
    ]),
    ownerReferences: controller.map((it) => pick(it, ["apiVersion", "kind", "name", "uid", "controller"])),
    annotations: pick(metadata.annotations ?? {}, ANNOTATIONS),
  });
}

function slimSpec(spec: KeptPodSpec): KeptPodSpec {
  const all = asOneContainer({ spec });
  const place = {
    ...pick(spec, ["nodeSelector", "tolerations"]),
    affinity: slimAffinity(spec.affinity),
    topologySpreadConstraints: spec.topologySpreadConstraints?.filter(
      ({ whenUnsatisfiable }) => whenUnsatisfiable === "DoNotSchedule",
    ),
  };
  const isCut = spec.isCut ?? (sizeOf([place, all]) > MAX_ENTRIES ? true : undefined);
  const podAntiAffinity = place.affinity.podAntiAffinity;
  return {
    ...compact<Partial<KeptPodSpec>>({
      ...pick(spec, ["nodeName", "priority", "priorityClassName", "schedulerName", "resourceClaims"]),
      ...(isCut ? { isCut, affinity: { podAntiAffinity: wideAntiAffinity(podAntiAffinity) } } : place),
      volumes: slimVolumes(spec.volumes),
    }),
    containers: [compact<Container>({ ...all, resources: compact(all.resources ?? {}) })],
  };
}

function slimAffinity({ nodeAffinity, podAffinity, podAntiAffinity }: Affinity = {}): Affinity {
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  return compact<Affinity>({
    nodeAffinity: nodeAffinity && pick(nodeAffinity, [required]),
    podAffinity: podAffinity && pick(podAffinity, [required]),
    podAntiAffinity: podAntiAffinity && pick(podAntiAffinity, [required]),
  });
}

const VOLUMES = ["emptyDir", "hostPath", "persistentVolumeClaim", "ephemeral"] as const;

/** One of each kind that is local storage, or can bind the pod to nodes. */
function slimVolumes(volumes: readonly Volume[] = []): readonly Volume[] {
  const isThere = (kind: (typeof VOLUMES)[number]): boolean => volumes.some((it) => it[kind] !== undefined);
  return VOLUMES.filter(isThere).map((kind): Volume => ({ name: kind, [kind]: {} }));
}

/** Leaves out fields that are undefined, an empty list or an empty map. */
function compact<T extends object>(object: { readonly [K in keyof T]: T[K] | undefined }): T {
  const isKept = (value: unknown): boolean =>
    value !== undefined && (typeof value !== "object" || value === null || Object.keys(value).length > 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => isKept(value))) as T;
}
