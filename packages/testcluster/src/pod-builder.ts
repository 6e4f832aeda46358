import type { Container, OwnerReference, Pod, PodCondition, Toleration } from "@berth/kube";
import { BUILT_AT, type Identity } from "./node-builder.ts";
import { realisticPod } from "./realistic.ts";

/**
 * Describes a Pod step by step; immutable and deterministic like `NodeBuilder`. A server drops the status of a pod it
 * creates: the steps that set one are for tests without a server, or for a write to the `status` subresource.
 */
export interface PodBuilder {
  /** Default `default`. */
  in(namespace: string): PodBuilder;
  /** Binds the pod to a node, past the scheduler. */
  on(node: string): PodBuilder;
  /** Image of the first container, which is called `main`. Default `registry.test/app:1`. */
  image(image: string): PodBuilder;
  /** One more container. */
  container(name: string, image: string): PodBuilder;
  /** Adds an init container. */
  initContainer(name: string, image: string): PodBuilder;
  /** Adds labels. */
  labelled(labels: Readonly<Record<string, string>>): PodBuilder;
  /** Adds annotations. */
  annotated(annotations: Readonly<Record<string, string>>): PodBuilder;
  /** Adds tolerations. */
  tolerating(...tolerations: readonly Toleration[]): PodBuilder;
  /** `spec.nodeSelector`. */
  selecting(labels: Readonly<Record<string, string>>): PodBuilder;
  /** Resources that the first container asks for. */
  requesting(resources: Readonly<Record<string, string>>): PodBuilder;
  /** `spec.priorityClassName`; the class must exist. */
  priorityClass(name: string): PodBuilder;
  /** `spec.serviceAccountName`. */
  serviceAccount(name: string): PodBuilder;
  /** The controlling owner. The uid is one that no server gives; name the real one where the garbage collector runs. */
  ownedBy(kind: string, name: string, uid?: string): PodBuilder;
  /** Owned by a DaemonSet of this name. */
  ofDaemonSet(name: string, uid?: string): PodBuilder;
  /** Phase Running and every container ready. */
  ready(): PodBuilder;
  /** Phase Running, not ready. */
  notReady(): PodBuilder;
  /** `status.phase`. The API server takes the status of a pod through its subresource only. */
  phase(phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown"): PodBuilder;
  /** Adds a condition, or replaces the one of this type. */
  condition(type: string, status: "True" | "False" | "Unknown", reason?: string): PodBuilder;
  /** As large as a pod of a busy cluster: about 11 KB of JSON with probes, variables, volumes and a sidecar. */
  realistic(): PodBuilder;
  /** As if read from a server. */
  stored(identity: Identity): PodBuilder;
  /** Whatever has no method of its own. */
  with(change: (pod: Pod) => Pod): PodBuilder;
  /** A copy of its own for each call. */
  build(): Pod;
}

/** A pending pod with one container, bound to no node. */
export function aPod(name: string): PodBuilder {
  return podBuilder({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
    status: { phase: "Pending" },
  });
}

function podBuilder(pod: Pod): PodBuilder {
  const [first = { name: "main" }, ...more] = pod.spec?.containers ?? [];
  const meta = (change: Partial<NonNullable<Pod["metadata"]>>): PodBuilder =>
    podBuilder({ ...pod, metadata: { ...pod.metadata, ...change } });
  const spec = (change: Partial<NonNullable<Pod["spec"]>>): PodBuilder =>
    podBuilder({ ...pod, spec: { containers: [first, ...more], ...pod.spec, ...change } });
  const main = (change: Partial<Container>): PodBuilder =>
    spec({ containers: [{ ...first, ...change }, ...more] });
  const self: PodBuilder = {
    in: (namespace) => meta({ namespace }),
    on: (nodeName) => spec({ nodeName }),
    image: (image) => main({ image }),
    container: (name, image) => spec({ containers: [first, ...more, { name, image }] }),
    initContainer: (name, image) =>
      spec({ initContainers: [...(pod.spec?.initContainers ?? []), { name, image }] }),
    labelled: (labels) => meta({ labels: { ...pod.metadata?.labels, ...labels } }),
    annotated: (annotations) => meta({ annotations: { ...pod.metadata?.annotations, ...annotations } }),
    tolerating: (...tolerations) => spec({ tolerations: [...(pod.spec?.tolerations ?? []), ...tolerations] }),
    selecting: (labels) => spec({ nodeSelector: { ...pod.spec?.nodeSelector, ...labels } }),
    requesting: (requests) =>
      main({
        resources: { ...first.resources, requests: { ...first.resources?.requests, ...requests } },
      }),
    priorityClass: (priorityClassName) => spec({ priorityClassName }),
    serviceAccount: (serviceAccountName) => spec({ serviceAccountName }),
    ownedBy: (kind, name, uid = `built-${kind}-${name}`.toLowerCase()) =>
      meta({ ownerReferences: [ownerReference(kind, name, uid)] }),
    ofDaemonSet: (name, uid) => self.ownedBy("DaemonSet", name, uid),
    ready: () => self.phase("Running").condition("Ready", "True").condition("ContainersReady", "True"),
    notReady: () => self.phase("Running").condition("Ready", "False").condition("ContainersReady", "False"),
    phase: (phase) => podBuilder({ ...pod, status: { ...pod.status, phase } }),
    condition: (type, status, reason) => podBuilder(withCondition(pod, condition(type, status, reason))),
    realistic: () => podBuilder(realisticPod(pod)),
    stored: (identity) => meta(identity),
    with: (change) => podBuilder(change(self.build())),
    build: () => structuredClone(pod),
  };
  return self;
}

function condition(type: string, status: string, reason: string | undefined): PodCondition {
  return { type, status, lastTransitionTime: BUILT_AT, ...(reason === undefined ? {} : { reason }) };
}

function withCondition(pod: Pod, next: PodCondition): Pod {
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== next.type);
  return { ...pod, status: { ...pod.status, conditions: [...others, next] } };
}

/** API groups of the kinds that own pods. */
const OWNER_API: Readonly<Record<string, string>> = {
  DaemonSet: "apps/v1",
  ReplicaSet: "apps/v1",
  StatefulSet: "apps/v1",
  Job: "batch/v1",
};

function ownerReference(kind: string, name: string, uid: string): OwnerReference {
  return { apiVersion: OWNER_API[kind] ?? "v1", kind, name, uid, controller: true, blockOwnerDeletion: true };
}
