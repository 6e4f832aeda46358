/** The objects of stories about startup gates, as the cluster has them. */
import { type DaemonSet, daemonSets, type Pod, pods } from "@berth/kube";
import { aPod, type Stage } from "@berth/testcluster";
import type { Labels } from "../oracle.ts";
import type { StoryGate } from "./gate-oracle.ts";

/** As kubelet reports it. */
export async function patchStatus(stage: Stage, pod: string, ready: boolean): Promise<void> {
  const { status } = ready ? aPod(pod).ready().build() : aPod(pod).notReady().build();
  const container = { name: "main", image: "registry.test/app:1", imageID: "", ready, restartCount: 0 };
  const body = { status: { ...status, containerStatuses: [{ ...container, state: { running: {} } }] } };
  await stage.patch(pods, pod, { type: "merge", body }, { subresource: "status" });
}

/** Without a grace period: there is no kubelet that would end it. */
export function boundPod(stage: Stage, name: string, node: string): Pod {
  return aPod(name)
    .on(stage.nameOf(node))
    .with((pod) => ({
      ...pod,
      spec: { containers: [], ...pod.spec, terminationGracePeriodSeconds: 0 },
    }))
    .build();
}

export interface InitPod {
  readonly name: string;
  readonly node: string;
  readonly set: string;
  readonly labels: Labels;
  readonly finalizers?: readonly string[];
}

export function initPod(stage: Stage, { name, node, set, labels, finalizers = [] }: InitPod): Pod {
  const pod = boundPod(stage, name, node);
  const owner = {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    name: stage.nameOf(set),
    uid: stage.latest(daemonSets, set)?.metadata?.uid ?? "",
    controller: true,
  };
  const metadata = { name, namespace: "kube-system", labels, ownerReferences: [owner], finalizers };
  return { ...pod, metadata };
}

export function aDaemonSet(name: string): DaemonSet {
  const labels = { set: name };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: "main", image: "registry.test/app:1" }] },
  };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace: "kube-system" },
    spec: { selector: { matchLabels: labels }, template },
  };
}

/** Time cannot be waited for: it lets go at once. */
export function toSpec(gate: StoryGate, stage: Stage): object {
  const { taint, completed, pods: queries = [], conditions = [], annotations = [], after = [], again } = gate;
  return {
    taint: { key: taint },
    ...(completed !== undefined && { completedAnnotation: completed }),
    signals: {
      pods: queries.map((matchLabels) => ({ selector: { matchLabels } })),
      conditions: conditions.map((type) => ({ type })),
      annotations: annotations.map((key) => ({ key })),
    },
    after: after.map((name) => stage.nameOf(name)),
    mode: again === undefined ? "Once" : "Continuous",
    heldAgain: { percent: 0, nodes: again ?? 0 },
    stableFor: "0s",
    backfill: { within: "24h" },
  };
}
