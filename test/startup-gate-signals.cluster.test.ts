/** What opens a startup gate, and which nodes it is about: on the whole product and a real API server. */
import type { Node } from "@berth/kube";
import { originalGate } from "@berth/placement";
import { aPod, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import {
  atOnce,
  createGateStage,
  type GateStage,
  hasTaint,
  STATUS,
  says,
  sharedGateCluster,
} from "./gate-world.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const gated = (name: string): Promise<GateStage> => createGateStage(cluster, name);

describe("signals", () => {
  it("N-B8 have to hold all together: two components and a DaemonSet", async () => {
    await using stage = await gated("b8-all");
    const agent = await stage.daemonSet("agent", { app: "agent" });
    const labels = { ...originalGate.podLabels };
    const podsOf = [
      { selector: { matchLabels: labels } },
      { selector: { matchLabels: { app: "csi" } }, ownedBy: "Anything" },
    ];
    const sets = [{ namespace: "kube-system", name: "agent" }];
    const nodeSelector = { matchLabels: { pool: "a" } };
    await stage.gate("net", {
      stableFor: "0s",
      nodeSelector,
      taint: { key: "b8.test/wait" },
      signals: { pods: podsOf, daemonSets: sets },
    });
    await stage.gate("canaries", {
      ...atOnce,
      nodeSelector: { matchExpressions: [{ key: "pool", operator: "DoesNotExist" }] },
    });
    await stage.start();
    await stage.add("n", (it) => it.labelled({ pool: "a" }));
    await stage.held("n", "b8.test/wait=wait:NoSchedule");
    await stage.pod(stage.init("n"), { ready: true });
    await stage.settled();
    expect(hasTaint(await stage.readNode("n"), "b8.test/wait")).toBe(true);
    const onNode = (name: string) => aPod(name).in("kube-system").on(stage.nodeName("n"));
    await stage.pod(onNode("csi").labelled({ app: "csi" }), { ready: true });
    await stage.settled();
    expect(hasTaint(await stage.readNode("n"), "b8.test/wait")).toBe(true);
    const ofAgent = onNode("agent").labelled({ app: "agent" }).ofDaemonSet("agent", agent.metadata?.uid);
    await stage.pod(ofAgent, { ready: true });
    await stage.free("n", "b8.test/wait");
  });

  it("N-B8 gates hold the nodes that they select, and those of the control plane only when told", async () => {
    await using stage = await gated("b8-select");
    await stage.gate("net", { ...atOnce, nodeSelector: { matchLabels: { pool: "a" } } });
    await stage.gate("all", {
      ...atOnce,
      taint: { key: "b8.test/all" },
      completedAnnotation: "b8.test/at",
      controlPlane: "Include",
    });
    await stage.start();
    const controlPlane = { "node-role.kubernetes.io/control-plane": "" };
    await stage.add("selected", (it) => it.labelled({ pool: "a" }));
    await stage.add("other", (it) => it.labelled({ pool: "b" }));
    await stage.add("control", (it) => it.labelled({ pool: "a", ...controlPlane }));
    for (const node of ["selected", "other", "control"])
      await stage.held(node, "b8.test/all=wait:NoSchedule");
    await stage.held("selected");
    for (const node of ["other", "control"]) expect(hasTaint(await stage.readNode(node))).toBe(false);
    await says(stage, "net", { selectedNodes: 1, heldNodes: 1, firstNodes: [stage.nodeName("selected")] });
    await says(stage, "all", { selectedNodes: 3, heldNodes: 3 });
  });

  it("of the Node itself and of derived labels open a gate as well", async () => {
    await using stage = await gated("node-signals");
    const signals = {
      conditions: [{ type: "Ready" }, { type: "NetworkUnavailable", status: "False" }],
      annotations: [{ key: "example.com/warm" }],
      resources: ["example.com/gpu"],
      labelsSettled: true,
    };
    await stage.gate("facts", { stableFor: "0s", signals });
    await stage.start();
    await stage.addHeld("n", (it) => it.notReady());
    await stage.state("n", "held", "facts");
    const steps: (() => Promise<Node>)[] = [
      () => stage.editNode("n", { metadata: { annotations: { "example.com/warm": "true" } } }),
      () => stage.editNode("n", { status: { allocatable: { "example.com/gpu": "2" } } }, STATUS),
      () => stage.editNode("n", { status: { conditions: [condition("Ready", "True")] } }, STATUS),
    ];
    for (const step of steps) {
      await step();
      expect(hasTaint(await stage.readNode("n"))).toBe(true);
    }
    const conditions = [condition("Ready", "True"), condition("NetworkUnavailable", "False")];
    await stage.editNode("n", { status: { conditions } }, STATUS);
    await stage.free("n");
  });
});

function condition(type: string, status: string): object {
  const at = new Date().toISOString();
  return { type, status, reason: "Told", lastHeartbeatTime: at, lastTransitionTime: at };
}
