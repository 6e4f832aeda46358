import type { Node, NodeCondition, NodeStatus, Taint } from "@berth/kube";
import { realisticNode } from "./realistic.ts";

/**
 * Describes a Node step by step. Every method returns a new builder and leaves the old one as it was, so a common
 * beginning can be shared. Nothing depends on time or chance: the same steps build the same object.
 */
export interface NodeBuilder {
  /** `kubernetes.io/arch` and `status.nodeInfo.architecture`, as the kubelet reports both. Default `amd64`. */
  architecture(architecture: string): NodeBuilder;
  /** `architecture("amd64")`. */
  amd64(): NodeBuilder;
  /** `architecture("arm64")`. */
  arm64(): NodeBuilder;
  /** The Ready condition is False, as when the kubelet's network plugin is missing. */
  notReady(): NodeBuilder;
  /** The Ready condition is Unknown, as the node controller sets it when a kubelet falls silent. */
  unreachable(): NodeBuilder;
  /** Adds a condition, or replaces the one of this type. */
  condition(type: string, status: "True" | "False" | "Unknown", reason?: string): NodeBuilder;
  /** Adds labels. */
  labelled(labels: Readonly<Record<string, string>>): NodeBuilder;
  /** Adds annotations. */
  annotated(annotations: Readonly<Record<string, string>>): NodeBuilder;
  /** Adds a taint; given text, it is read as kubectl writes one: `key[=value]:Effect`. */
  tainted(...taints: readonly (Taint | string)[]): NodeBuilder;
  /** As `kubectl cordon` leaves it. */
  unschedulable(): NodeBuilder;
  /** The labels `topology.kubernetes.io/zone` and, if given, `/region`. */
  zone(zone: string, region?: string): NodeBuilder;
  /** Sets both capacity and allocatable of the named resources. */
  capacity(resources: Readonly<Record<string, string>>): NodeBuilder;
  /** `spec.providerID`, as a cloud provider sets it. */
  providerId(id: string): NodeBuilder;
  /**
   * Managed by kwok: it becomes Ready by itself, keeps a Lease, and its pods run. Without the controller manager the
   * taint `node.kubernetes.io/not-ready` that admission puts on every new node stays.
   */
  fake(): NodeBuilder;
  /** As large as a node of a busy cluster: about 9 KB of JSON with images, labels and annotations. */
  realistic(): NodeBuilder;
  /** As if read from a server: for tests without one. */
  stored(identity: Identity): NodeBuilder;
  /** Any other change. */
  with(change: (node: Node) => Node): NodeBuilder;
  /** A copy of its own for each call. */
  build(): Node;
}

/** What only a server gives an object. */
export interface Identity {
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** RFC 3339. */
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
}

/** Times in built objects: the beginning of the virtual clock of `@berth/runtime`. */
export const BUILT_AT = "2026-01-01T00:00:00Z";

const ARCHITECTURE_LABEL = "kubernetes.io/arch";
const CAPACITY = { cpu: "32", memory: "128Gi", "ephemeral-storage": "200Gi", pods: "110" };

/** A Ready amd64 node with what a kubelet reports. Node CREATE keeps the status it carries (checked on 1.36.3). */
export function aNode(name: string): NodeBuilder {
  return nodeBuilder({
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", [ARCHITECTURE_LABEL]: "amd64" },
    },
    spec: {},
    status: {
      addresses: [{ type: "Hostname", address: name }],
      capacity: CAPACITY,
      allocatable: CAPACITY,
      conditions: CONDITIONS,
      nodeInfo: {
        architecture: "amd64",
        operatingSystem: "linux",
        kubeletVersion: "v1.36.3",
        kubeProxyVersion: "",
        containerRuntimeVersion: "containerd://2.1.4",
        kernelVersion: "6.12.0",
        osImage: "Simulated Linux",
        machineID: "",
        systemUUID: "",
        bootID: "",
      },
    },
  });
}

function nodeBuilder(node: Node): NodeBuilder {
  const meta = (change: Partial<NonNullable<Node["metadata"]>>): NodeBuilder =>
    nodeBuilder({ ...node, metadata: { ...node.metadata, ...change } });
  const spec = (change: Partial<NonNullable<Node["spec"]>>): NodeBuilder =>
    nodeBuilder({ ...node, spec: { ...node.spec, ...change } });
  const self: NodeBuilder = {
    architecture: (architecture) =>
      nodeBuilder(withStatus(node, (status) => withArchitecture(status, architecture))).labelled({
        [ARCHITECTURE_LABEL]: architecture,
      }),
    amd64: () => self.architecture("amd64"),
    arm64: () => self.architecture("arm64"),
    notReady: () => self.condition("Ready", "False", "KubeletNotReady"),
    unreachable: () => self.condition("Ready", "Unknown", "NodeStatusUnknown"),
    condition: (type, status, reason) =>
      nodeBuilder(withStatus(node, (old) => withCondition(old, condition(type, status, reason)))),
    labelled: (labels) => meta({ labels: { ...node.metadata?.labels, ...labels } }),
    annotated: (annotations) => meta({ annotations: { ...node.metadata?.annotations, ...annotations } }),
    tainted: (...taints) => spec({ taints: [...(node.spec?.taints ?? []), ...taints.map(toTaint)] }),
    unschedulable: () => spec({ unschedulable: true }),
    zone: (zone, region) =>
      self.labelled({
        "topology.kubernetes.io/zone": zone,
        ...(region === undefined ? {} : { "topology.kubernetes.io/region": region }),
      }),
    capacity: (resources) =>
      nodeBuilder(
        withStatus(node, (status) => ({
          ...status,
          capacity: { ...status.capacity, ...resources },
          allocatable: { ...status.allocatable, ...resources },
        })),
      ),
    providerId: (providerID) => spec({ providerID }),
    // kwok takes charge of a node whose Ready condition is not True yet.
    fake: () =>
      nodeBuilder(withStatus(node, (status) => ({ ...status, conditions: [] }))).annotated({
        "kwok.x-k8s.io/node": "fake",
      }),
    realistic: () => nodeBuilder(realisticNode(node)),
    stored: (identity) => meta(identity),
    with: (change) => nodeBuilder(change(self.build())),
    build: () => structuredClone(node),
  };
  return self;
}

const CONDITIONS: readonly NodeCondition[] = [
  condition("Ready", "True", "KubeletReady"),
  condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
  condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
  condition("PIDPressure", "False", "KubeletHasSufficientPID"),
];

function condition(type: string, status: string, reason = "Built"): NodeCondition {
  return { type, status, reason, lastHeartbeatTime: BUILT_AT, lastTransitionTime: BUILT_AT };
}

function withStatus(node: Node, change: (status: NodeStatus) => NodeStatus): Node {
  return { ...node, status: change(node.status ?? {}) };
}

function withArchitecture(status: NodeStatus, architecture: string): NodeStatus {
  return status.nodeInfo === undefined
    ? status
    : { ...status, nodeInfo: { ...status.nodeInfo, architecture } };
}

function withCondition(status: NodeStatus, next: NodeCondition): NodeStatus {
  const others = (status.conditions ?? []).filter(({ type }) => type !== next.type);
  return { ...status, conditions: [...others, next] };
}

function toTaint(taint: Taint | string): Taint {
  if (typeof taint !== "string") return taint;
  const match = /^([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)$/.exec(taint);
  if (match === null) throw new TypeError(`"${taint}" is no taint: write key[=value]:Effect`);
  const [, key = "", value, effect = ""] = match;
  return { key, effect, ...(value === undefined ? {} : { value }) };
}
