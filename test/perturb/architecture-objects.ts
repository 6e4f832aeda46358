/** The objects of stories about architecture policies, as the cluster has them. */
import type { Affinity, DaemonSet, Pod, Toleration } from "@berth/kube";
import { ARCHITECTURE_GATE } from "@berth/placement";
import type { Labels } from "../oracle.ts";

/** What its images run on, by whole name: what a policy says itself is known without any registry. */
export type Facts = Readonly<Record<string, readonly string[]>>;

/** A policy of a story, for the nodes of its pool. */
export interface StoryPolicy {
  readonly mode: "Taint" | "Affinity" | "Both";
  readonly facts: Facts;
  /** Default that of archaware-controller. */
  readonly key?: string;
  /** The pods that it governs. Default all. */
  readonly podLabels?: Labels;
  /** Default 0. */
  readonly priority?: number;
  /** Somebody else taints the nodes. Default false. */
  readonly leavesNodes?: boolean;
  /** No story may last so long. Default `1h`. */
  readonly maxHold?: string;
}

/** A pod without a node. */
export interface StoryPod {
  readonly images: readonly string[];
  /** Held as by the webhook, behind the gate of somebody else. Default false. */
  readonly gated?: boolean;
  readonly affinity?: Affinity;
  readonly labels?: Labels;
  /** Of the pod when it is there already. */
  readonly node?: string;
  /** Default one that must stay. */
  readonly tolerations?: readonly Toleration[];
}

/** Somebody else's, which must stay. */
export const FOREIGN_GATE = "example.com/quota";
const FOREIGN_TOLERATION = { key: "example.com/dedicated", operator: "Exists" };

/** What makes a node one of those that policies of stories select. */
export const POOL = { "example.com/pool": "story" };

/** Whole: a policy that stands is edited to be this one. */
export function specOf({ mode, facts, key, podLabels, priority, leavesNodes, maxHold }: StoryPolicy): object {
  return {
    mode,
    priority: priority ?? 0,
    podSelector: { matchLabels: podLabels ?? {} },
    taint: {
      key: key ?? "supported-arch",
      nodes: leavesNodes ? "Leave" : "Taint",
      nodeSelector: { matchLabels: POOL },
    },
    maxHold: maxHold ?? "1h",
    // What no policy knows is asked for at a port where nobody listens: no answer is never a lack of images.
    images: Object.entries(facts).map(([image, architectures]) => ({ image, architectures })),
  };
}

export function podObject(
  name: string,
  { images, gated, affinity, labels = {}, node, tolerations = [FOREIGN_TOLERATION] }: StoryPod,
): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", labels },
    spec: {
      containers: images.map((image, at) => ({ name: `c${at}`, image })),
      tolerations,
      terminationGracePeriodSeconds: 0,
      ...(gated && { schedulingGates: [{ name: FOREIGN_GATE }, { name: ARCHITECTURE_GATE }] }),
      ...(affinity && { affinity }),
      ...(node !== undefined && { nodeName: node }),
    },
  };
}

export function daemonSetObject(
  name: string,
  image: string,
  tolerations: readonly Toleration[] = [FOREIGN_TOLERATION],
): DaemonSet {
  const labels = { set: name };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace: "kube-system" },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "main", image }], tolerations },
      },
    },
  };
}
