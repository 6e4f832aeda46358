import type { Pod } from "@berth/kube";
import { aNode, aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { ARCHITECTURE_GATE } from "./document.ts";
import { explainPod, type PodExplanation } from "./explain.ts";
import type { ImageObservations } from "./image-observations.ts";
import { type PolicyInit, policiesOf } from "./testing/policies.ts";

const NOW = Date.parse("2026-01-01T00:01:00Z");

/** `amd,arm:1` runs on both; `none` is not known, `gone` failed. */
const observations: ImageObservations = {
  look({ image }) {
    const name = `registry.test/${image}`;
    if (image === "none") return { state: "unknown", name };
    if (image === "gone")
      return { state: "failed", name, reason: "ImageNotFound", message: "there is none of this name" };
    const platforms = image.split("-").map((architecture) => ({ os: "linux", architecture }));
    return { state: "known", name, platforms };
  },
};

const nodes = [
  aNode("a1"),
  aNode("a2").labelled({ disk: "ssd" }),
  aNode("b1").arm64().labelled({ disk: "ssd" }),
  aNode("b2")
    .arm64()
    .with((node) => ({ ...node, spec: { taints: [], unschedulable: true } })),
].map((node) => node.build());

function explain(pod: Pod, policy: PolicyInit | null = { mode: "Both" }): PodExplanation {
  const metadata = { ...pod.metadata, namespace: "default", creationTimestamp: "2026-01-01T00:00:00Z" };
  return explainPod({
    pod: { ...pod, metadata: { ...metadata, resourceVersion: "1" } },
    policies: policiesOf(policy === null ? {} : { p: policy }),
    namespaceLabels: {},
    observations,
    nodes,
    now: NOW,
  });
}

const gated = (pod: Pod): Pod => ({
  ...pod,
  spec: {
    containers: [],
    ...pod.spec,
    schedulingGates: [{ name: "theirs" }, { name: ARCHITECTURE_GATE }],
  },
});

describe("explaining a pod", () => {
  it("names the image that excludes an architecture, and the nodes that are left", () => {
    const said = explain(aPod("web").image("amd64-arm64").container("sidecar", "arm64").build());
    expect(said).toMatchObject({
      pod: "default/web",
      policy: "cluster/p",
      verdict: "fits",
      architectures: ["arm64"],
      missingTolerations: [{ key: "supported-arch", value: "arm64", effect: "NoSchedule" }],
      next: "change",
      otherGates: [],
    });
    expect(said.images.map(({ where, excludes }) => [where, excludes])).toEqual([
      ["container main", []],
      ["container sidecar", ["amd64"]],
    ]);
    const unfit = { why: "its images do not run on amd64", nodes: 2 };
    const cordoned = { why: "the node is cordoned", nodes: 1 };
    expect(said.nodes).toEqual([
      { platform: "linux/amd64", nodes: 2, left: 0, first: [], because: [unfit] },
      { platform: "linux/arm64", nodes: 2, left: 1, first: ["b1"], because: [cordoned] },
    ]);
  });

  it("tells since when it is held, for how long at most, and what it waits for", () => {
    const said = explain(gated(aPod("web").image("none").build()), { mode: "Affinity", maxHold: "5m" });
    expect(said).toMatchObject({
      verdict: "waiting",
      reason: "ImagesPending",
      held: { since: "2026-01-01T00:00:00Z", forMs: 60_000, maxHoldMs: 300_000 },
      otherGates: ["theirs"],
      images: [{ source: "none", image: "registry.test/none", excludes: [] }],
    });
    expect(said).not.toHaveProperty("next");
  });

  it("I-15 says when it is about to be let go, and how soon that is sent again if it is refused", () => {
    const said = explain(gated(aPod("web").image("amd64").build()), { mode: "Affinity" });
    expect(said).toMatchObject({ verdict: "fits", next: "release", retryMs: 30_000, otherGates: ["theirs"] });
  });

  it("gives the reason why an image is not known", () => {
    const { images } = explain(aPod("web").image("gone").build());
    expect(images).toMatchObject([{ problem: { reason: "ImageNotFound" } }]);
  });

  it("leaves no node to one that can run nowhere", () => {
    const said = explain(aPod("web").image("amd64").container("b", "arm64").build());
    expect([said.verdict, said.nodes.map(({ left }) => left)]).toEqual(["impossible", [0, 0]]);
  });

  it("goes by selectors and affinity as well, and takes nothing for about to change that has its node", () => {
    const pod = aPod("web").image("amd64-arm64").selecting({ disk: "ssd" }).on("a2").build();
    const said = explain(pod);
    expect([said.node, said.next, said.missingTolerations]).toEqual(["a2", undefined, []]);
    expect(said.nodes.map(({ first, because }) => [first, because[0]?.why])).toEqual([
      [["a2"], "its node selector does not match"],
      [["b1"], "its node selector does not match"],
    ]);
  });

  it("says of one that has its node whether its images run there", () => {
    const misplaced = "its images do not run on amd64";
    expect(explain(aPod("web").image("arm64").on("a1").build())).toMatchObject({ node: "a1", misplaced });
    for (const right of [aPod("web").image("arm64").on("b1"), aPod("web").image("none").on("a1")])
      expect(explain(right.build())).not.toHaveProperty("misplaced");
  });

  it("of nobody's concern can go wherever else it could", () => {
    const said = explain(aPod("web").image("none").build(), null);
    expect(said).toMatchObject({ verdict: "any", reason: "ArchitectureOptedOut" });
    expect(said).not.toHaveProperty("policy");
    expect(said.nodes.map(({ left }) => left)).toEqual([2, 1]);
  });
});
