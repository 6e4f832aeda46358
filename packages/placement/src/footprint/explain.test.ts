import type { Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodeFootprintSpec } from "./document.ts";
import { explainPodFootprints, type FootprintOfPod } from "./explain.ts";
import { aNode, aPod, CLAIM, type ExplainWorld, explain, LABEL, stageOf } from "./testing/explain-world.ts";
import { makePod } from "./testing/pods.ts";

describe("a footprint on one node", () => {
  it("names the pods that need the agent in order, with their claims, written or not", () => {
    const node = aNode({ labels: { [LABEL]: "true" }, annotations: { [`${CLAIM}A`]: "" } });
    expect(explain({ node, pods: [aPod("b", "B"), aPod("a2", "A"), aPod("a1", "A")] })).toMatchObject({
      footprint: "cluster/atelet",
      phase: "Needed",
      label: "ate.dev/atelet=true",
      standing: "true",
      pods: [
        { pod: "ns/a1", is: "Counts", group: "A" },
        { pod: "ns/a2", is: "Counts", group: "A" },
        { pod: "ns/b", is: "Counts", group: "B" },
      ],
      claims: [
        { key: `${CLAIM}A`, stands: true, pods: ["ns/a1", "ns/a2"] },
        { key: `${CLAIM}B`, stands: false, pods: ["ns/b"] },
      ],
    });
  });

  it("is pending while the label does not stand, or with another value", () => {
    expect(explain({ pods: [aPod("a", "A")] }).phase).toBe("Pending");
    const node = aNode({ labels: { [LABEL]: "maybe" } });
    expect(explain({ node, pods: [aPod("a", "A")] })).toMatchObject({ phase: "Pending", standing: "maybe" });
  });

  it("tells of a claim that nobody needs, and of a pod that does not count why", () => {
    const node = aNode({ annotations: { [`${CLAIM}B`]: "" } });
    const said = explain({ node, pods: [aPod("a", "B", ["A"])] });
    expect(said).toMatchObject({
      phase: "Idle",
      claims: [{ key: `${CLAIM}B`, stands: true, pods: [] }],
      pods: [{ pod: "ns/a", is: "Refused", why: expect.stringContaining("WorkerPool-A") as string }],
    });
  });

  it("leaves out pods that are over", () => {
    expect(explain({ pods: [aPod("a", "A", ["A"], "Failed")] })).toMatchObject({
      phase: "Idle",
      pods: [],
      claims: [],
    });
  });

  it("does not know before pods, or the owners of one, have been read", () => {
    expect(explain({ pods: undefined })).toMatchObject({ phase: "Unknown", pods: undefined });
    expect(explain({ pods: [aPod("a", "A")], open: ["a"] })).toMatchObject({
      phase: "Unknown",
      pods: [{ pod: "ns/a", is: "Unknown" }],
      claims: [],
    });
  });

  it("says of an excluded node only that, and what stands there", () => {
    const spec: NodeFootprintSpec = {
      preset: "agent-substrate/pr-134",
      node: { excludeSelector: { matchLabels: { virtual: "yes" } } },
    };
    const node = aNode({ labels: { virtual: "yes", [LABEL]: "true" } });
    expect(explain({ node, spec, pods: [] })).toMatchObject({ phase: "Excluded", standing: "true" });
  });

  it("has the claim of a namespace that is too long for a key under its hash, with the pods behind it", () => {
    const spec: NodeFootprintSpec = {
      preset: "log",
      workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }],
    };
    const namespace = "n".repeat(63);
    const pod = makePod("a", { namespace, labels: { logs: "yes" } });
    const [claim] = explain({ spec, pods: [pod] }).claims;
    expect(claim).toMatchObject({ stands: false, pods: [`${namespace}/a`] });
    expect(claim?.key).toMatch(/^footprint\.berth\.dev\/atelet_h\.[0-9a-f]{32}$/);
  });

  it("says why the agent cannot run there, and nothing of a DaemonSet that was not read", () => {
    const of = "ate-system/atelet";
    expect(explain({ pods: [], daemonSet: null }).agent).toEqual({
      daemonSet: of,
      problem: `there is no DaemonSet ${of}`,
    });
    expect(explain({ pods: [], daemonSet: undefined }).agent).toEqual({ daemonSet: of });
    const spec = { selector: {}, template: { spec: { containers: [], nodeSelector: { zone: "z" } } } };
    const { agent } = explain({
      pods: [],
      daemonSet: { metadata: { name: "atelet", namespace: "ate-system" }, spec },
    });
    expect(agent?.problem).toContain("n1");
  });
});

const claimed = aNode({
  labels: { [LABEL]: "true" },
  annotations: { [`${CLAIM}A`]: "" },
  ours: [`label/${LABEL}`, `annotation/${CLAIM}A`],
});

describe("a mark that stays", () => {
  it("for a pod that has lost its owner is not said to be nobody's", () => {
    const spec: NodeFootprintSpec = { preset: "agent-substrate/owner-uid" };
    const labels = { "ate.dev/worker-pool": "p" };
    const orphan: Pod = { ...aPod("a", "A", []), metadata: { name: "a", namespace: "ns", uid: "a", labels } };
    const said = explain({ node: claimed, spec, pods: [orphan] });
    expect(said.pods).toEqual([{ pod: "ns/a", is: "Ownerless" }]);
    expect(said.claims).toEqual([{ key: `${CLAIM}A`, stands: true, pods: [] }]);
  });

  it("is that of the pod that has lost its owner and names it, and no other", () => {
    const said = explain({ node: claimed, pods: [aPod("a", "A", [])] });
    expect(said.pods).toEqual([{ pod: "ns/a", is: "Ownerless", group: "A" }]);
    expect(said.claims).toEqual([{ key: `${CLAIM}A`, stands: true, pods: ["ns/a"] }]);
  });
});

describe("an agent that is not checked", () => {
  it("has no problem", () => {
    const spec: NodeFootprintSpec = { preset: "agent-substrate/pr-134", agent: { nodeSelector: "Off" } };
    expect(explain({ spec, pods: [], daemonSet: null }).agent).toEqual({ daemonSet: "ate-system/atelet" });
  });
});

describe("a pod", () => {
  const explainPod = (pod: Pod, world: ExplainWorld = {}, isBound = true): FootprintOfPod | undefined => {
    const { node, footprints, around } = stageOf({ pods: [pod], ...world });
    return explainPodFootprints(pod, footprints, { ...around, node: isBound ? node : undefined })[0];
  };

  it("counts for its group, with the label of its node", () => {
    const node = aNode({ labels: { [LABEL]: "true" } });
    expect(explainPod(aPod("a", "A"), { node })).toEqual({
      footprint: "cluster/atelet",
      is: "Counts",
      group: "A",
      node: { name: "n1", phase: "Needed", label: "ate.dev/atelet=true", standing: "true" },
    });
    expect(explainPod(aPod("a", "A"))?.node).toMatchObject({ phase: "Pending" });
  });

  it("is told of before it has a node", () => {
    expect(explainPod(aPod("a", "A"), {}, false)).toEqual({
      footprint: "cluster/atelet",
      is: "Counts",
      group: "A",
    });
  });

  it("is refused, or not known, with why", () => {
    expect(explainPod(aPod("a", "B", ["A"]))).toMatchObject({
      is: "Refused",
      why: expect.stringContaining("WorkerPool-A") as string,
    });
    expect(explainPod(aPod("a", "A"), { open: ["a"] })).toMatchObject({ is: "Unknown" });
  });

  it("without its owner is told of by what stands on its node for no other", () => {
    const [orphan, owned] = [aPod("a", "A", []), aPod("b", "A")];
    expect(explainPod(orphan, { node: claimed })).toMatchObject({ is: "Ownerless", group: "A" });
    expect(explainPod(orphan, { node: claimed, pods: [orphan, owned] })).toMatchObject({ is: "Refused" });
  });

  it("is ignored by workloads that do not take it, when it is over, and without the label that groups", () => {
    const { labels: _, ...bare } = aPod("a", "A").metadata ?? {};
    const whyOf = (pod: Pod, spec?: NodeFootprintSpec): string | undefined => {
      const said = explainPod(pod, spec === undefined ? {} : { spec });
      expect(said?.is).toBe("Ignored");
      return said?.why;
    };
    expect(whyOf({ ...aPod("a", "A"), metadata: bare })).toBe("no workload takes it");
    expect(whyOf(aPod("a", "A", ["A"], "Succeeded"))).toBe("it is finished, or ends");
    const spec: NodeFootprintSpec = {
      workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
      group: { by: "PodLabel", label: "team" },
      node: { label: { key: "example.com/web" } },
    };
    expect(whyOf({ ...aPod("a", "A"), metadata: { ...bare, labels: { app: "web" } } }, spec)).toBe(
      "it does not have the label team, by which pods are grouped",
    );
  });
});
