/** What opens a startup gate, and which nodes it is about: on the whole product and a real API server. */
import type { Node } from "@berth/kube";
import { originalGate, startupGates } from "@berth/placement";
import { aPod, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { createGateStage, type GateStage, hasTaint, says, sharedGateCluster, stateOf } from "./gate-world.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedGateCluster();
});

const gated = (name: string): Promise<GateStage> => createGateStage(cluster, name);

/** The default signal, and no waiting that a test does not ask for. */
const atOnce = { stableFor: "0s", signals: { pods: [{}] } };

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
    expect(hasTaint(await stage.read("n"), "b8.test/wait")).toBe(true);
    const onNode = (name: string) => aPod(name).in("kube-system").on(stage.nodeName("n"));
    await stage.pod(onNode("csi").labelled({ app: "csi" }), { ready: true });
    await stage.settled();
    expect(hasTaint(await stage.read("n"), "b8.test/wait")).toBe(true);
    const ofAgent = onNode("agent").labelled({ app: "agent" }).ofDaemonSet("agent", agent.metadata?.uid);
    await stage.pod(ofAgent, { ready: true });
    await stage.free("n", "b8.test/wait");
  });

  it("N-B8 of several pods of one component all have to be ready", async () => {
    await using stage = await gated("b8-pods");
    await stage.gate("net", atOnce);
    await stage.start();
    await stage.addHeld("n");
    await stage.pod(stage.init("n", "first"), { ready: false });
    await stage.pod(stage.init("n", "second"), { ready: true });
    await stage.settled();
    expect(hasTaint(await stage.read("n"))).toBe(true);
    await stage.say({ name: "first" }, { ready: true });
    await stage.free("n");
  });

  it("I-14 may be alternatives, and an absent condition counts as the status that the gate gives it", async () => {
    await using stage = await gated("i14-any");
    const nodeSelector = { matchLabels: { pool: "a" } };
    const taint = { key: "i14.test/any" };
    const problem = { type: "KernelDeadlock", status: "False", defaultStatus: "False" };
    const either = (type: string) => ({ conditions: [{ type }] });
    const anyOf = [either("DriverReady"), either("FallbackReady")];
    const bad = [
      { signals: { anyOf: [{}] } },
      { signals: { conditions: [problem] } },
      { mode: "Continuous", signals: { anyOf: [{ conditions: [problem] }] } },
    ];
    for (const [at, spec] of bad.entries())
      await expect(stage.gate(`bad-${at}`, spec)).rejects.toThrow(/always hold|absent condition/);
    const spec = { stableFor: "0s", mode: "Continuous", heldAgain: { percent: 100 }, nodeSelector, taint };
    await stage.gate("any", { ...spec, signals: { conditions: [problem], anyOf } });
    await stage.start();
    await stage.add("n", (it) => it.labelled({ pool: "a" }).tainted("i14.test/any=wait:NoSchedule"));
    await stage.state("n", "held", "any");
    const report = async (type: string, status: string) => {
      const { status: { conditions = [] } = {} } = await stage.read("n");
      const others = conditions.filter((it) => it.type !== type);
      await stage.edit("n", { status: { conditions: [...others, { type, status }] } }, "status");
    };
    await report("FallbackReady", "True");
    await stage.free("n", taint.key);
    await report("KernelDeadlock", "True");
    await stage.held("n", "i14.test/any=wait:NoSchedule");
  });

  it("N-B8 that hold at once do not shorten the minimum hold, nor a break the time they have to be stable", async () => {
    await using stage = await gated("b8-hold");
    await stage.gate("net", { ...atOnce, minimumHold: "2s" });
    await stage.start();
    const began = performance.now();
    await stage.addHeld("n");
    await stage.pod(stage.init("n"), { ready: true });
    await stage.free("n");
    expect(performance.now() - began).toBeGreaterThanOrEqual(2000);
    await cluster.client.patch(
      startupGates,
      { name: "net" },
      { type: "merge", body: { spec: { minimumHold: "0s", stableFor: "2s" } } },
    );
    await says(stage, "net", { observedGeneration: 2 });
    // On a machine that stands still, a pod may have been ready for long enough before its break is seen.
    let heldMs = 0;
    for (let attempt = 0; attempt < 5 && heldMs < 2000; attempt += 1) {
      const node = `m${attempt}`;
      const pod = { name: `init-${node}` };
      await stage.addHeld(node);
      await stage.state(node, "held", "net");
      await stage.pod(stage.init(node), { ready: true });
      await stage.read(node);
      await stage.say(pod, { ready: false });
      const broken = performance.now();
      // A break that is seen by its time alone: a second has passed by the clock of the node.
      await stage.say(pod, { ready: true, since: new Date(Date.now() + 1000).toISOString() });
      await stage.free(node);
      heldMs = performance.now() - broken;
    }
    expect(heldMs).toBeGreaterThanOrEqual(2000);
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
    for (const node of ["other", "control"]) expect(hasTaint(await stage.read(node))).toBe(false);
    await says(stage, "net", { selectedNodes: 1, heldNodes: 1, firstNodes: [stage.nodeName("selected")] });
    await says(stage, "all", { selectedNodes: 3, heldNodes: 3 });
  });

  it("N-B8 a gate that comes after another looks when that has let go", async () => {
    await using stage = await gated("b8-after");
    await stage.gate("gpu", {
      taint: { key: "b8.test/gpu" },
      after: ["net"],
      stableFor: "0s",
      signals: { resources: ["b8.test/gpu"] },
    });
    await stage.gate("net", atOnce);
    await stage.start();
    await stage.add("n", (it) => it.capacity({ "b8.test/gpu": "1" }));
    await stage.held("n");
    await stage.held("n", "b8.test/gpu=wait:NoSchedule");
    await stage.pod(stage.init("n"), { ready: true });
    const after = await stage.free("n", "b8.test/gpu");
    expect(hasTaint(after)).toBe(false);
    expect(stateOf(after, "gpu")).toMatchObject({ state: "released", why: "Released" });
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
      () => stage.edit("n", { metadata: { annotations: { "example.com/warm": "true" } } }),
      () => stage.edit("n", { status: { allocatable: { "example.com/gpu": "2" } } }, "status"),
      () => stage.edit("n", { status: { conditions: [condition("Ready", "True")] } }, "status"),
    ];
    for (const step of steps) {
      await step();
      expect(hasTaint(await stage.read("n"))).toBe(true);
    }
    const conditions = [condition("Ready", "True"), condition("NetworkUnavailable", "False")];
    await stage.edit("n", { status: { conditions } }, "status");
    await stage.free("n");
  });
});

function condition(type: string, status: string): object {
  const at = new Date().toISOString();
  return { type, status, reason: "Told", lastHeartbeatTime: at, lastTransitionTime: at };
}
