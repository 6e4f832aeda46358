/** What opens a startup gate, and which nodes it is about: on the whole product and a real API server. */
import type { Node } from "@berth/kube";
import { originalGate } from "@berth/placement";
import { aPod, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import {
  atOnce,
  createGateFixture,
  type GateFixture,
  hasTaint,
  STATUS,
  says,
  sharedGateCluster,
} from "./gate-fixture.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const gated = (name: string): Promise<GateFixture> => createGateFixture(cluster, name);

describe("signals", () => {
  it("N-B8 have to hold all together: two components and a DaemonSet", async () => {
    await using fixture = await gated("b8-all");
    const agent = await fixture.daemonSet("agent", { app: "agent" });
    const labels = { ...originalGate.podLabels };
    const podsOf = [
      { selector: { matchLabels: labels } },
      { selector: { matchLabels: { app: "csi" } }, ownedBy: "Anything" },
    ];
    const sets = [{ namespace: "kube-system", name: "agent" }];
    const nodeSelector = { matchLabels: { pool: "a" } };
    await fixture.gate("net", {
      stableFor: "0s",
      nodeSelector,
      taint: { key: "b8.test/wait" },
      signals: { pods: podsOf, daemonSets: sets },
    });
    await fixture.gate("canaries", {
      ...atOnce,
      nodeSelector: { matchExpressions: [{ key: "pool", operator: "DoesNotExist" }] },
    });
    await fixture.start();
    await fixture.add("n", (it) => it.labelled({ pool: "a" }));
    await fixture.held("n", "b8.test/wait=wait:NoSchedule");
    await fixture.pod(fixture.init("n"), { ready: true });
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("n"), "b8.test/wait")).toBe(true);
    const onNode = (name: string) => aPod(name).in("kube-system").on(fixture.nodeName("n"));
    await fixture.pod(onNode("csi").labelled({ app: "csi" }), { ready: true });
    await fixture.settled();
    expect(hasTaint(await fixture.readNode("n"), "b8.test/wait")).toBe(true);
    const ofAgent = onNode("agent").labelled({ app: "agent" }).ofDaemonSet("agent", agent.metadata?.uid);
    await fixture.pod(ofAgent, { ready: true });
    await fixture.free("n", "b8.test/wait");
  });

  it("N-B8 gates hold the nodes that they select, and those of the control plane only when told", async () => {
    await using fixture = await gated("b8-select");
    await fixture.gate("net", { ...atOnce, nodeSelector: { matchLabels: { pool: "a" } } });
    await fixture.gate("all", {
      ...atOnce,
      taint: { key: "b8.test/all" },
      completedAnnotation: "b8.test/at",
      controlPlane: "Include",
    });
    await fixture.start();
    const controlPlane = { "node-role.kubernetes.io/control-plane": "" };
    await fixture.add("selected", (it) => it.labelled({ pool: "a" }));
    await fixture.add("other", (it) => it.labelled({ pool: "b" }));
    await fixture.add("control", (it) => it.labelled({ pool: "a", ...controlPlane }));
    for (const node of ["selected", "other", "control"])
      await fixture.held(node, "b8.test/all=wait:NoSchedule");
    await fixture.held("selected");
    for (const node of ["other", "control"]) expect(hasTaint(await fixture.readNode(node))).toBe(false);
    await says(fixture, "net", {
      selectedNodes: 1,
      heldNodes: 1,
      firstNodes: [fixture.nodeName("selected")],
    });
    await says(fixture, "all", { selectedNodes: 3, heldNodes: 3 });
  });

  it("of the Node itself and of derived labels open a gate as well", async () => {
    await using fixture = await gated("node-signals");
    const signals = {
      conditions: [{ type: "Ready" }, { type: "NetworkUnavailable", status: "False" }],
      annotations: [{ key: "example.com/warm" }],
      resources: ["example.com/gpu"],
      labelsSettled: true,
    };
    await fixture.gate("facts", { stableFor: "0s", signals });
    await fixture.start();
    await fixture.addHeld("n", (it) => it.notReady());
    await fixture.state("n", "held", "facts");
    const steps: (() => Promise<Node>)[] = [
      () => fixture.editNode("n", { metadata: { annotations: { "example.com/warm": "true" } } }),
      () => fixture.editNode("n", { status: { allocatable: { "example.com/gpu": "2" } } }, STATUS),
      () => fixture.editNode("n", { status: { conditions: [condition("Ready", "True")] } }, STATUS),
    ];
    for (const step of steps) {
      await step();
      expect(hasTaint(await fixture.readNode("n"))).toBe(true);
    }
    const conditions = [condition("Ready", "True"), condition("NetworkUnavailable", "False")];
    await fixture.editNode("n", { status: { conditions } }, STATUS);
    await fixture.free("n");
  });
});

function condition(type: string, status: string): object {
  const at = new Date().toISOString();
  return { type, status, reason: "Told", lastHeartbeatTime: at, lastTransitionTime: at };
}
