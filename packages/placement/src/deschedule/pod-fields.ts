/** What descheduling keeps of each pod and reads of each node. */
import { type FieldMask, keepFields, pick } from "@berth/host";
import type { Affinity, Container, ObjectMeta, Pod, PodSpec, Projection, Volume } from "@berth/kube";
import { markFields } from "../node/mark.ts";
import { DESCHEDULE_KEY, EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION } from "./document.ts";
import { keptAntiAffinity } from "./fit-topology.ts";

/** Set by kubelets on the mirrors of static pods. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** Fields of a Node: its marks, and what `findFit` reads. */
export const podFitFields: FieldMask = [...markFields, "status.allocatable"];

const ANNOTATIONS = [DESCHEDULE_KEY, EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION, MIRROR_ANNOTATION];

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

function slimSpec(spec: PodSpec): PodSpec {
  return {
    ...compact<Partial<PodSpec>>({
      ...pick(spec, [
        "nodeName",
        "nodeSelector",
        "tolerations",
        "priority",
        "priorityClassName",
        "schedulerName",
        "overhead",
        "resourceClaims",
      ]),
      affinity: slimAffinity(spec.affinity),
      resources: spec.resources && pick(spec.resources, ["requests"]),
      topologySpreadConstraints: spec.topologySpreadConstraints?.filter(
        ({ whenUnsatisfiable }) => whenUnsatisfiable === "DoNotSchedule",
      ),
      initContainers: spec.initContainers?.map(slimContainer),
      volumes: spec.volumes?.flatMap(slimVolume),
    }),
    containers: spec.containers.map(slimContainer),
  };
}

function slimAffinity({ nodeAffinity, podAffinity, podAntiAffinity }: Affinity = {}): Affinity {
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  return compact<Affinity>({
    nodeAffinity: nodeAffinity && pick(nodeAffinity, [required]),
    podAffinity: podAffinity && pick(podAffinity, [required]),
    podAntiAffinity: podAntiAffinity && keptAntiAffinity(podAntiAffinity),
  });
}

function slimContainer({ name, resources, ports = [], restartPolicy }: Container): Container {
  return compact<Container>({
    name,
    resources: resources && pick(resources, ["requests"]),
    ports: ports.filter(({ hostPort = 0 }) => hostPort > 0),
    restartPolicy,
  });
}

/** Volumes that are local storage, or can bind the pod to nodes. */
function slimVolume(volume: Volume): readonly Volume[] {
  const kept = pick(volume, ["name", "emptyDir", "hostPath", "persistentVolumeClaim"]);
  // A template of a claim is large, and only matters as there or not.
  const slim = volume.ephemeral === undefined ? kept : { ...kept, ephemeral: {} };
  return Object.keys(slim).length > 1 ? [slim] : [];
}

/** Leaves out fields that are undefined, an empty list or an empty map. */
function compact<T extends object>(object: { readonly [K in keyof T]: T[K] | undefined }): T {
  const isKept = (value: unknown): boolean =>
    value !== undefined && (typeof value !== "object" || value === null || Object.keys(value).length > 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => isKept(value))) as T;
}
