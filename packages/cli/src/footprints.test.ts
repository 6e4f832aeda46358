import { type NodeFootprint, nodeFootprintSpec } from "@berth/placement";
import { describe, expect, it } from "vitest";
import type { LocatedNodeFootprint } from "./config/settings.ts";
import { createFootprintHub, readClusterFootprints } from "./footprints.ts";

const GPU = { preset: "gpu" } as const;
const labelled = (key: string): object => ({ preset: "gpu", node: { label: { key } } });

function ofCluster(name: string, spec: object = GPU, generation = 1): NodeFootprint {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "NodeFootprint",
    metadata: { name, uid: name, generation },
    spec,
  };
}

function ofFile(name: string, spec: object = GPU): LocatedNodeFootprint {
  return {
    name,
    spec: nodeFootprintSpec.parse(spec),
    annotations: {},
    file: "footprints.yaml",
    line: 1,
    column: 1,
    positionOf: () => ({ line: 7, column: 3 }),
  };
}

interface Stage {
  readonly hub: ReturnType<typeof createFootprintHub>;
  readonly setCluster: (...footprints: readonly NodeFootprint[]) => void;
  readonly rules: () => readonly string[] | undefined;
  readonly changes: () => number;
}

function stage(): Stage {
  let changes = 0;
  const hub = createFootprintHub(() => (changes += 1));
  return {
    hub,
    setCluster: (...footprints) => hub.setCluster(readClusterFootprints(footprints)),
    rules: () => hub.inForce?.footprints.map(({ rule }) => rule),
    changes: () => changes,
  };
}

describe("sources of node footprints", () => {
  it("are nothing until one has been read", () => {
    const { hub, rules, changes } = stage();
    hub.settle();
    expect([rules(), changes()]).toEqual([undefined, 0]);
  });

  it("are not settled before the cluster has been read: a footprint that is in no file may be there", () => {
    const { hub, setCluster } = stage();
    hub.setConfig([]);
    expect(hub.inForce?.policy.unsettled?.sources).toEqual(new Set(["config"]));
    setCluster();
    expect(hub.inForce?.policy.unsettled).toBeUndefined();
  });

  it("are settled without the cluster when it is said that it will not be read, and go on when it is", () => {
    const { hub, setCluster, rules } = stage();
    hub.setConfig([ofFile("a")]);
    hub.settle();
    expect(hub.inForce?.policy.unsettled).toBeUndefined();
    setCluster(ofCluster("b"));
    expect(rules()).toEqual(["config/a", "cluster/b"]);
  });

  it("let the file win over the cluster, and say so of the object", () => {
    const { hub, setCluster, rules } = stage();
    hub.setConfig([ofFile("a")]);
    setCluster(ofCluster("a"));
    expect(rules()).toEqual(["config/a"]);
    expect(hub.judgementOf("a", { uid: "a", generation: 1 })).toMatchObject({
      ready: false,
      reason: "FootprintInvalid",
      message: expect.stringContaining("config/a has the same name"),
    });
  });

  it("report both of two that want one label, each with the name of the other, and keep what was in force", () => {
    const { hub, setCluster, rules } = stage();
    hub.setConfig([ofFile("a", labelled("example.com/agent"))]);
    setCluster(ofCluster("b", labelled("example.com/agent")));
    expect(rules()).toEqual(["config/a"]);
    expect(hub.judgementOf("b", { uid: "b", generation: 1 })).toMatchObject({
      ready: false,
      reason: "FootprintOverlap",
      message: expect.stringMatching(/^spec\.node\.label\.key: config\/a wants/),
    });
    expect(hub.configFaults()).toEqual([
      expect.objectContaining({ reason: "FootprintOverlap", message: expect.stringContaining("cluster/b") }),
    ]);
  });
});

describe("a footprint of the cluster", () => {
  it("is judged in the version that was read, and in no other", () => {
    const { hub, setCluster } = stage();
    setCluster(ofCluster("a"), ofCluster("bad", labelled("kubernetes.io/agent")));
    expect(hub.judgementOf("a", { uid: "a", generation: 1 })).toEqual({
      ready: true,
      reason: "FootprintInForce",
      message: "in force",
    });
    expect(hub.judgementOf("bad", { uid: "bad", generation: 1 })).toMatchObject({
      ready: false,
      reason: "FootprintInvalid",
      message: expect.stringMatching(/^spec\.node\.label\.key: /),
    });
    expect(hub.judgementOf("a", { uid: "a", generation: 2 })).toBeUndefined();
    expect(hub.judgementOf("a", { uid: "another", generation: 1 })).toBeUndefined();
  });

  it("goes on as it was while its document has a fault, and ends when it is deleted", () => {
    const { setCluster, hub, rules } = stage();
    setCluster(ofCluster("a"));
    setCluster(ofCluster("a", { preset: "never" }, 2));
    expect(rules()).toEqual(["cluster/a"]);
    expect(hub.judgementOf("a", { uid: "a", generation: 2 })?.ready).toBe(false);
    setCluster();
    expect(rules()).toEqual([]);
    // Its marks can still be taken off, also after another change.
    setCluster(ofCluster("b"));
    expect(hub.inForce?.policy.declared.ids).toEqual(
      new Set(["label/footprint.berth.dev/a", "label/footprint.berth.dev/b"]),
    );
  });
});

it("what is wrong with a footprint of a file is told where it stands there", () => {
  const { hub } = stage();
  hub.setConfig([ofFile("bad", labelled("node.kubernetes.io/x"))]);
  expect(hub.configFaults()).toEqual([
    {
      file: "footprints.yaml",
      line: 7,
      column: 3,
      severity: "error",
      reason: "FootprintInvalid",
      message: expect.stringMatching(/^bad: node\.label\.key: /),
    },
  ]);
});
