import type { DaemonSet, Node, Pod, PodSpec, Taint } from "@berth/kube";
import { aNode, aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import type { SignalReading } from "./gate.ts";
import { readSignals } from "./signals.ts";
import { gateWith, sightOf, type World } from "./testing/sight.ts";

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
  const context = { sight: sightOf(world), boot: { id: "" }, gateTaints: [gateTaint] };
  const [reading] = readSignals(gate, on, context);
  if (reading === undefined) throw new Error("nothing was read");
  return reading;
}

describe("the signal of a named DaemonSet", () => {
  const held = node.tainted(gateTaint).build();
  const tolerant = template({ tolerations: [{ operator: "Exists" }] });

  it.each<[string, World, Node, Partial<SignalReading>]>([
    [
      "has not been read",
      { daemonSetsRead: false },
      held,
      {
        state: "unknown",
        reason: "SignalUnknown",
        message: "the DaemonSet kube-system/cni has not been read",
      },
    ],
    [
      "is not there",
      {},
      held,
      {
        state: "missing",
        reason: "DaemonSetMissing",
        noPod: true,
        message: "there is no DaemonSet kube-system/cni",
      },
    ],
    [
      "is being deleted",
      {
        daemonSets: [
          { ...tolerant, metadata: { ...tolerant.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } },
        ],
      },
      held,
      { state: "missing", reason: "DaemonSetMissing", noPod: true },
    ],
    [
      "is not meant for the node",
      { daemonSets: [template({ nodeName: "n2" })] },
      held,
      {
        state: "holds",
        reason: "DaemonSetNotExpected",
        message: "kube-system/cni is not meant for the node: it is for the node n2",
      },
    ],
    [
      "cannot come past the gate",
      { daemonSets: [template({})] },
      held,
      {
        state: "missing",
        reason: "DaemonSetBlocked",
        noPod: true,
        message:
          "kube-system/cni does not tolerate startup.k8s.io/initializing=wait:NoSchedule, so its pod can never come",
      },
    ],
    [
      "cannot come past the gate, and is there already",
      { daemonSets: [template({})], pods: [aDaemonPod("a", true)] },
      held,
      { state: "holds", reason: "SignalHolds" },
    ],
    [
      "cannot come past the gate, and is there already, not ready",
      { daemonSets: [template({})], pods: [aDaemonPod("a", false)] },
      held,
      { state: "missing", reason: "PodNotReady" },
    ],
    [
      "cannot come past the gate, and its pods have not been read",
      { daemonSets: [template({})], isUnread: () => true },
      held,
      { state: "unknown", reason: "SignalUnknown" },
    ],
    [
      "has no pod yet",
      { daemonSets: [tolerant] },
      held,
      { state: "missing", reason: "PodMissing", noPod: true },
    ],
    ["has a ready pod", { daemonSets: [tolerant], pods: [aDaemonPod("a", true)] }, held, { state: "holds" }],
    [
      "has a pod that is not ready",
      { daemonSets: [tolerant], pods: [aDaemonPod("a", false)] },
      held,
      {
        state: "missing",
        reason: "PodNotReady",
        message: "kube-system/a is not ready: container main",
      },
    ],
    [
      "rolls out with a surge",
      { daemonSets: [tolerant], pods: [aDaemonPod("a", false), aDaemonPod("b", true)] },
      held,
      { state: "holds", message: "kube-system/b is ready" },
    ],
    [
      "has only a pod of an earlier one of its name",
      {
        daemonSets: [template({ tolerations: [{ operator: "Exists" }] }, "ds-2")],
        pods: [aDaemonPod("a", true)],
      },
      held,
      { reason: "PodMissing", message: "kube-system/a does not count: another one controls it" },
    ],
  ])("%s", (_, world, on, reading) => {
    expect(read(world, on)).toMatchObject({ signal: "daemonset kube-system/cni", ...reading });
  });

  it("starts anew when what was not expected becomes expected", () => {
    const elsewhere = read({ daemonSets: [template({ nodeName: "n2" })] });
    const here = read({ daemonSets: [tolerant], pods: [aDaemonPod("a", true)] });
    expect(here.evidence).not.toBe(elsewhere.evidence);
  });
});
