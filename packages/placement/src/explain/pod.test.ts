import { aNode, aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type PolicyInit, policiesOf } from "../node/architecture/testing/policies.ts";
import { type KnownImages, sightOf } from "../node/architecture/testing/sight.ts";
import { explainPod, type PodExplanation } from "./pod.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const nodes = [aNode("big-1"), aNode("big-2"), aNode("small-1").arm64()].map((node) => node.build());

interface Case {
  readonly pod: PodBuilder;
  readonly images?: KnownImages;
  readonly policy?: PolicyInit;
}

function explain({ pod, images = {}, policy = { mode: "Affinity" } }: Case): PodExplanation {
  const stored = pod.stored({ uid: "u", resourceVersion: "1" }).build();
  const policies = policiesOf({ default: policy });
  return explainPod({ pod: stored, policies, namespaceLabels: {}, sight: sightOf(images), nodes, now: NOW });
}

describe("explaining a pod", () => {
  it("says which image excludes which architecture, and which nodes are left", () => {
    const pod = aPod("web").image("arm").container("sidecar", "both");
    const told = explain({ pod, images: { arm: ["arm64"], both: ["amd64", "arm64"] } });
    expect(told.images.map(({ where, excludes }) => [where, excludes])).toEqual([
      ["container main", ["amd64"]],
      ["container sidecar", []],
    ]);
    expect(told.nodes).toEqual([
      {
        platform: "linux/amd64",
        nodes: 2,
        left: 0,
        first: [],
        because: [{ why: "its images do not run on amd64", nodes: 2 }],
      },
      { platform: "linux/arm64", nodes: 1, left: 1, first: ["small-1"], because: [] },
    ]);
  });

  it("names both images where nothing runs both", () => {
    const pod = aPod("web").image("arm").container("sidecar", "amd");
    const { verdict, message, nodes: left } = explain({ pod, images: { arm: ["arm64"], amd: ["amd64"] } });
    expect(verdict).toBe("impossible");
    expect(message).toContain("container main");
    expect(message).toContain("container sidecar");
    expect(left.map((one) => one.left)).toEqual([0, 0]);
  });

  it("goes by the policy's word on an image, and not by a registry that fails", () => {
    const policy: PolicyInit = { mode: "Taint", images: [{ image: "firmware", architectures: ["arm64"] }] };
    const images = { firmware: { failed: "RegistryUnreachable" } } as const;
    expect(explain({ pod: aPod("flasher").image("firmware"), images, policy }).images).toEqual([
      {
        where: "container main",
        image: "docker.io/library/firmware:latest",
        architectures: ["arm64"],
        excludes: ["amd64"],
        source: "policy",
      },
    ]);
  });

  it("says since when our gate holds it, and for how long at most", () => {
    const pod = aPod("web").with((it) => ({
      ...it,
      metadata: { ...it.metadata, creationTimestamp: "2025-12-31T23:59:50Z" },
      spec: {
        containers: [],
        ...it.spec,
        schedulingGates: [{ name: "example.com/quota" }, { name: "berth.dev/architecture" }],
      },
    }));
    const told = explain({ pod });
    expect(told.verdict).toBe("waiting");
    expect(told.held).toEqual({ since: "2025-12-31T23:59:50Z", forMs: 10_000, maxHoldMs: 30_000 });
    expect(told.otherGates).toEqual(["example.com/quota"]);
  });
});
