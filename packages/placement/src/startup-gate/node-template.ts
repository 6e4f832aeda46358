/** What the nodes of an autoscaler have to bring, as documents for the tools that make nodes. Pure. */
import {
  defineResource,
  type KubeObject,
  type Node,
  type ObjectMeta,
  type Resource,
  type Taint,
} from "@berth/kube";
import { clusterAutoscalerHints, KNOWN_TO_KARPENTER } from "./autoscaler.ts";
import type { Gate } from "./gate.ts";
import { isGatedAtCreation } from "./selection.ts";
import { type GateList, taintOf } from "./tolerate.ts";

export const templateKinds = ["karpenter", "cluster-api", "node-group"] as const;
export type TemplateKind = (typeof templateKinds)[number];

/** Kinds that declare nodes: `karpenter.sh` is Karpenter's, whatever the cloud. */
export interface NodePool extends KubeObject {
  readonly spec?: {
    readonly template?: {
      readonly metadata?: Pick<ObjectMeta, "labels">;
      readonly spec?: {
        readonly startupTaints?: readonly Taint[];
        readonly requirements?: readonly {
          readonly key: string;
          readonly operator: string;
          readonly values?: readonly string[];
        }[];
      };
    };
  };
}
export const nodePools: Resource<NodePool> = defineResource({
  group: "karpenter.sh",
  version: "v1",
  plural: "nodepools",
  kind: "NodePool",
  namespaced: false,
});

export interface NodeTemplatePart {
  /** For people, in lines. */
  readonly comments: readonly string[];
  /** Absent where there are comments only. */
  readonly document?: object;
}

/** @param labels those that Berth derives on such nodes. Tools that make nodes from nothing cannot know them. */
export function nodeTemplate(
  kind: TemplateKind,
  list: GateList,
  labels: Readonly<Record<string, string>>,
): readonly NodeTemplatePart[] {
  const taints = list.gates.map(taintOf);
  const hasLabels = Object.keys(labels).length > 0;
  const hints = taints.length > 0 ? [{ comments: clusterAutoscalerHints(list) }] : [];
  if (kind === "karpenter") {
    const template = {
      ...(hasLabels && { metadata: { labels } }),
      ...(taints.length > 0 && { spec: { startupTaints: taints } }),
    };
    return hasLabels || taints.length > 0
      ? [{ comments: ["Merge this into the NodePool."], document: { spec: { template } } }]
      : [];
  }
  const isApi = kind === "cluster-api";
  const registration: NodeTemplatePart = isApi
    ? {
        comments: ["Merge this into the KubeadmConfigTemplate."],
        document: { spec: { template: { spec: { joinConfiguration: { nodeRegistration: { taints } } } } } },
      }
    : {
        comments: ["Merge this into the kubelet's configuration, or give each as --register-with-taints."],
        document: {
          apiVersion: "kubelet.config.k8s.io/v1beta1",
          kind: "KubeletConfiguration",
          registerWithTaints: taints,
        },
      };
  const pairs = Object.entries(labels);
  const known: NodeTemplatePart = isApi
    ? {
        comments: ["Merge this into the MachineDeployment, so that it scales from zero for these labels."],
        document: {
          metadata: {
            annotations: {
              "capacity.cluster-autoscaler.kubernetes.io/labels": pairs.map((it) => it.join("=")).join(","),
            },
          },
        },
      }
    : {
        comments: ["Tags of the node group, so that it scales from zero for these labels."],
        document: Object.fromEntries(
          pairs.map(([key, value]) => [`k8s.io/cluster-autoscaler/node-template/label/${key}`, value]),
        ),
      };
  return [...(taints.length > 0 ? [registration] : []), ...(hasLabels ? [known] : []), ...hints];
}

/** Gates that hold a new node like this one. @param like `undefined`: any node. */
export function gatesOfNewNodes({ gates }: GateList, like: Node | undefined): readonly Gate[] {
  const inForce = gates.filter(({ spec }) => !spec.dryRun);
  return like === undefined ? inForce : inForce.filter((gate) => isGatedAtCreation(gate, like));
}

/**
 * Gates whose taint Karpenter does not expect on nodes of the pool, so that it makes one node after the other for a pod
 * that waits. Only labels are compared that the pool gives each node: its own, and requirements with a single value.
 */
export function unexpectedGates(pool: NodePool, { gates }: GateList): readonly Gate[] {
  const { metadata, spec } = pool.spec?.template ?? {};
  const { startupTaints = [], requirements = [] } = spec ?? {};
  const required = requirements.flatMap(({ key, operator, values: [value, ...more] = [] }) =>
    operator === "In" && value !== undefined && more.length === 0 ? [[key, value] as const] : [],
  );
  const name = pool.metadata?.name ?? "";
  const labels = { ...Object.fromEntries(required), ...metadata?.labels, "karpenter.sh/nodepool": name };
  return gatesOfNewNodes({ gates }, { metadata: { labels } }).filter(({ spec: { taint } }) => {
    const isExpected = startupTaints.some(({ key, effect }) => key === taint.key && effect === taint.effect);
    return !isExpected && !taint.key.startsWith(KNOWN_TO_KARPENTER);
  });
}
