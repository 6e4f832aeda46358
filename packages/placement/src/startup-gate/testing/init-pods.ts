/** The pods of the DaemonSet `init` on the node `n1`, as a kubelet reports them, and what a pod signal says of them. */
import type { ContainerStatus, DaemonSet, Node, OwnerReference, Pod } from "@berth/kube";
import { aNode, aPod, type PodBuilder } from "@berth/testcluster";
import { originalGate, type PodSignal } from "../document.ts";
import type { Boot, SignalReading } from "../gate.ts";
import { readSignals } from "../signals.ts";
import { gateWith, sightOf, type World } from "./observations.ts";

const node: Node = aNode("n1").stored({ uid: "node-1", creationTimestamp: "2026-01-01T00:00:00Z" }).build();
export const later: string = "2026-01-01T00:01:00Z";

export const container = (name: string, ready: boolean, startedAt: string = later): ContainerStatus => ({
  name,
  ready,
  restartCount: 0,
  image: "",
  imageID: "",
  state: { running: { startedAt } },
});

/** As the kubelet reports a pod whose containers run. */
export const reporting = (
  builder: PodBuilder,
  ...containerStatuses: readonly ContainerStatus[]
): PodBuilder => builder.with((pod) => ({ ...pod, status: { ...pod.status, containerStatuses } }));

/** A pod of the DaemonSet `init`, on the node and later than it. */
export const initPod = (name = "init-1"): PodBuilder =>
  aPod(name)
    .in("kube-system")
    .on("n1")
    .labelled(originalGate.podLabels)
    .ofDaemonSet("init", "ds-1")
    .stored({ uid: `uid-${name}`, creationTimestamp: later });
export const readyPod = (name = "init-1"): PodBuilder =>
  reporting(initPod(name).ready(), container("main", true));
export const unreadyPod = (name = "init-1"): PodBuilder =>
  reporting(initPod(name).notReady(), container("main", false));

export const DS: OwnerReference = { apiVersion: "apps/v1", kind: "DaemonSet", name: "init", uid: "ds-1" };
export const owned = (...ownerReferences: readonly OwnerReference[]): PodBuilder =>
  readyPod().with((pod) => ({ ...pod, metadata: { ...pod.metadata, ownerReferences } }));
export const unlabelled = (pod: PodBuilder): PodBuilder =>
  pod.with((it) => ({ ...it, metadata: { ...it.metadata, labels: {} } }));

const init: DaemonSet = {
  metadata: { name: "init", namespace: "kube-system", uid: "ds-1" },
  spec: { selector: { matchLabels: { app: "init" } }, template: {} },
};

/** What a signal says of the node `n1` with these pods. The DaemonSet `init` is there unless said otherwise. */
export function read(
  signal: Partial<PodSignal>,
  pods: readonly Pod[],
  { boot = { id: "" }, ...world }: Omit<World, "pods"> & { readonly boot?: Boot } = {},
): SignalReading {
  const gate = gateWith({ pods: [signal] });
  const selectors = gate.spec.signals.pods.map((it) => it.selector);
  const observations = sightOf({ daemonSets: [init], selectors, ...world, pods });
  const [reading] = readSignals(gate, node, { observations, boot, gateTaints: [] });
  if (reading === undefined) throw new Error("nothing was read");
  return reading;
}

export const build = (...builders: readonly PodBuilder[]): readonly Pod[] =>
  builders.map((builder) => builder.build());
