import type { DaemonSet, Node, Pod, PodSpec, Taint } from "@berth/kube";
import { aNode, aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import type { SignalReading } from "./gate.ts";
import { readSignals } from "./signals.ts";
import { gateWith, sightOf, type World } from "./testing/observations.ts";

const gateTaint: Taint = { key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" };

const node = aNode("n1")
  .labelled({ disk: "ssd", gpus: "8" })
  .stored({ creationTimestamp: "2026-01-01T00:00:00Z" });

const template = (spec: Partial<PodSpec>, uid = "ds-1"): DaemonSet => ({
  metadata: { name: "cni", namespace: "kube-system", uid },
  spec: { selector: { matchLabels: { app: "cni" } }, template: { spec: { containers: [], ...spec } } },
});

const aDaemonPod = (name: string, isReady: boolean): Pod => {
  const pod = aPod(name).in("kube-system").on("n1").labelled({ app: "cni" }).ofDaemonSet("cni", "ds-1");
  const built = (isReady ? pod.ready() : pod.notReady())
    .stored({ uid: `uid-${name}`, creationTimestamp: "2026-01-01T00:00:10Z" })
    .build();
  const main = { name: "main", ready: isReady, restartCount: 0, image: "", imageID: "" };
  return { ...built, status: { ...built.status, containerStatuses: [main] } };
};

function read(world: World, on: Node = node.build()): SignalReading {
  const gate = gateWith({ daemonSets: [{ namespace: "kube-system", name: "cni" }] });
  const context = { observations: sightOf(world), boot: { id: "" }, gateTaints: [gateTaint] };
  const [reading] = readSignals(gate, on, context);
  if (reading === undefined) throw new Error("nothing was read");
  return reading;
}

describe("the signal of a named DaemonSet", () => {
  const tolerant = template({ tolerations: [{ operator: "Exists" }] });
  const later = template({ tolerations: [{ operator: "Exists" }] }, "ds-2");
  const leaving = {
    ...tolerant,
    metadata: { ...tolerant.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
  };

  const blocked = template({});
  const pods = (...ready: readonly boolean[]): readonly Pod[] =>
    ready.map((is, at) => aDaemonPod("ab"[at] ?? "", is));
  const CANNOT =
    "kube-system/cni does not tolerate startup.k8s.io/initializing=wait:NoSchedule, so its pod can never come";
  const UNREADY = "kube-system/a is not ready: container main";

  it.each<[string, World, SignalReading["state"], SignalReading["reason"], string]>([
    [
      "has not been read",
      { daemonSetsRead: false },
      "unknown",
      "SignalUnknown",
      "the DaemonSet kube-system/cni has not been read",
    ],
    ["is not there", {}, "missing", "DaemonSetMissing", "there is no DaemonSet kube-system/cni"],
    [
      "is being deleted",
      { daemonSets: [leaving] },
      "missing",
      "DaemonSetMissing",
      "it is being deleted, the DaemonSet kube-system/cni",
    ],
    [
      "is not meant for the node",
      { daemonSets: [template({ nodeName: "n2" })] },
      "holds",
      "DaemonSetNotExpected",
      "kube-system/cni is not meant for the node: it is for the node n2",
    ],
    ["cannot come past the gate", { daemonSets: [blocked] }, "missing", "DaemonSetBlocked", CANNOT],
    [
      "cannot come past, and is there already",
      { daemonSets: [blocked], pods: pods(true) },
      "holds",
      "SignalHolds",
      "kube-system/a is ready",
    ],
    [
      "cannot come past, and is there, not ready",
      { daemonSets: [blocked], pods: pods(false) },
      "missing",
      "PodNotReady",
      UNREADY,
    ],
    [
      "cannot come past, and its pods are not read",
      { daemonSets: [blocked], isUnread: () => true },
      "unknown",
      "SignalUnknown",
      "the pods of kube-system have not been read",
    ],
    [
      "has no pod yet",
      { daemonSets: [tolerant] },
      "missing",
      "PodMissing",
      "there is no such pod on the node",
    ],
    [
      "has a ready pod",
      { daemonSets: [tolerant], pods: pods(true) },
      "holds",
      "SignalHolds",
      "kube-system/a is ready",
    ],
    [
      "has a pod that is not ready",
      { daemonSets: [tolerant], pods: pods(false) },
      "missing",
      "PodNotReady",
      UNREADY,
    ],
    [
      "rolls out with a surge",
      { daemonSets: [tolerant], pods: pods(false, true) },
      "holds",
      "SignalHolds",
      "kube-system/b is ready",
    ],
    [
      "has only a pod of an earlier one of its name",
      { daemonSets: [later], pods: pods(true) },
      "missing",
      "PodMissing",
      "kube-system/a does not count: another one controls it",
    ],
  ])("%s", (_, world, state, reason, message) => {
    const noPod = ["DaemonSetMissing", "DaemonSetBlocked", "PodMissing"].includes(reason) ? true : undefined;
    const reading = read(world, node.tainted(gateTaint).build());
    expect(reading).toMatchObject({ signal: "daemonset kube-system/cni", state, reason, message });
    expect(reading.noPod).toBe(noPod);
  });

  it("starts anew when what was not expected becomes expected", () => {
    const elsewhere = read({ daemonSets: [template({ nodeName: "n2" })] });
    const here = read({ daemonSets: [tolerant], pods: [aDaemonPod("a", true)] });
    expect(here.evidence).not.toBe(elsewhere.evidence);
  });
});
