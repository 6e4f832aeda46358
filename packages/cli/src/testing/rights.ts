/** Documents and objects that need every right of the manifests. */
import type { DaemonSet, KubeObject, OwnerReference, Pod, Secret } from "@berth/kube";
import { ARCHITECTURES_ANNOTATION, startupGates } from "@berth/placement";
import { type aPod, REGISTRY_USER } from "@berth/testcluster";
import { loadSettings } from "../config/settings.ts";
import type { ExtraRights } from "../manifests-rights.ts";
import { aDaemonSet, aDocument } from "./cluster.ts";

export const DEVICE = "example.com/device";
export const GATE_TAINT = "readiness.k8s.io/rights";
export const HELD = "rights.example.com/held";
export const GATE: string = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: rights}
spec:
  nodeSelector: {matchLabels: {${DEVICE}: x}}
  taint: {key: ${GATE_TAINT}}
  stableFor: 0s
  signals:
    daemonSets: [{namespace: default, name: rights}]
`;
export const heldGate = (): KubeObject =>
  aDocument(startupGates, "held", {
    nodeSelector: { matchLabels: { [HELD]: "x" } },
    taint: { key: HELD },
    directBinding: "Refuse",
    signals: { pods: [{}] },
  });

const ARCHITECTURE_TAINT = "rights.example.com/arch";
export const POLICY: string = `apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: rights}
spec:
  mode: Both
  podSelector: {matchLabels: {app: rights}}
  taint: {key: ${ARCHITECTURE_TAINT}, nodeSelector: {matchLabels: {${DEVICE}: x}}}
`;

/** The taint of an architecture, and the toleration of it. */
export const taintOf = (value: string): object => ({ key: ARCHITECTURE_TAINT, value, effect: "NoSchedule" });

/** Its annotation says what it runs on. */
export const untolerating = (name: string): DaemonSet =>
  aDaemonSet(name, { labels: { app: "rights" }, annotations: { [ARCHITECTURES_ANNOTATION]: "arm64" } });

export function pullSecret(image: string): Secret {
  const { name: username, password } = REGISTRY_USER;
  const auths = { [image.slice(0, image.indexOf("/"))]: { username, password } };
  const stringData = { ".dockerconfigjson": JSON.stringify({ auths }) };
  return { metadata: { name: "rights-pull" }, type: "kubernetes.io/dockerconfigjson", stringData };
}

/** As `berth manifests --config` has them. */
export async function rightsOfFile(file: string): Promise<ExtraRights> {
  const settings = await loadSettings({ config: [file] }, "/");
  return { documents: settings };
}

export const FOOTPRINTS: string = `apiVersion: berth.dev/v1alpha1
kind: WorkerPools
metadata: {name: default}
spec: {allow: {images: [registry.test/], namespaces: [default]}, uidLabel: true}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: atelet}
spec:
  preset: agent-substrate/owner-uid
  agent: {daemonSet: {namespace: default, name: rights-atelet}, nodeSelector: Manage}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: storage}
spec:
  preset: csi
  workloads: [{csiDrivers: [csi.example.com], namespaceSelector: {matchLabels: {storage: "yes"}}}]
`;

/** Every kind that Berth looks for an owner behind. */
export const OWNER_KINDS: readonly (readonly [string, string])[] = [
  ...["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"].map((kind) => ["apps/v1", kind] as const),
  ...["Job", "CronJob"].map((kind) => ["batch/v1", kind] as const),
  ["v1", "ReplicationController"] as const,
];

export const ownerOf = (
  apiVersion: string,
  kind: string,
  { metadata: { name = "", uid = "" } = {} }: KubeObject,
): OwnerReference => ({ apiVersion, kind, name, uid, controller: true });

/** The pod on rights-3, controlled by this owner. */
export function owned(pod: ReturnType<typeof aPod>, owner: OwnerReference): Pod {
  const { metadata, ...more } = pod.on("rights-3").build();
  return { ...more, metadata: { ...metadata, ownerReferences: [owner] } };
}
