import { type ArchitecturePolicy, architecturePolicySpec, BOOTSTRAP_ANNOTATION } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { createArchitectureHub, readClusterArchitecture } from "./architecture-policies.ts";
import type { LocatedArchitecturePolicy } from "./config/settings.ts";

const TAINT = { mode: "Taint" } as const;

function ofCluster(name: string, spec: object = TAINT, generation = 1): ArchitecturePolicy {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "ArchitecturePolicy",
    metadata: { name, uid: name, generation },
    spec,
  };
}

function ofFile(name: string, spec: object = TAINT): LocatedArchitecturePolicy {
  return {
    name,
    spec: architecturePolicySpec.parse(spec),
    annotations: {},
    file: "policies.yaml",
    line: 1,
    column: 1,
    positionOf: () => ({ line: 7, column: 3 }),
  };
}

interface Stage {
  readonly hub: ReturnType<typeof createArchitectureHub>;
  readonly setCluster: (...policies: readonly ArchitecturePolicy[]) => void;
  readonly rules: () => readonly string[] | undefined;
  readonly changes: () => number;
}

function stage(): Stage {
  let changes = 0;
  const hub = createArchitectureHub(() => (changes += 1));
  return {
    hub,
    setCluster: (...policies) => hub.setCluster(readClusterArchitecture(policies)),
    rules: () => hub.inForce?.policies.map(({ rule }) => rule),
    changes: () => changes,
  };
}

describe("sources of architecture policies", () => {
  it("are nothing until one has been read", () => {
    const { hub, rules, changes } = stage();
    hub.settle();
    expect([rules(), changes()]).toEqual([undefined, 0]);
  });

  it("are not settled before the cluster has been read: a policy that is in no file may be there", () => {
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
      message: "config/a has the same name and is in force",
    });
  });
});

describe("a policy of the cluster", () => {
  it("is judged in the version that was read, and in no other", () => {
    const { hub, setCluster } = stage();
    setCluster(ofCluster("a"), ofCluster("bad", { mode: "Taint", taint: { key: "node.kubernetes.io/x" } }));
    expect(hub.judgementOf("a", { uid: "a", generation: 1 })).toEqual({
      ready: true,
      reason: "ArchitecturePolicyInForce",
      message: "in force",
    });
    expect(hub.judgementOf("bad", { uid: "bad", generation: 1 })).toMatchObject({
      ready: false,
      reason: "ArchitecturePolicyInvalid",
      message: expect.stringMatching(/^spec\.taint\.key: /),
    });
    expect(hub.judgementOf("a", { uid: "a", generation: 2 })).toBeUndefined();
    expect(hub.judgementOf("a", { uid: "another", generation: 1 })).toBeUndefined();
  });

  it("goes on as it was while its document has a fault, and ends when it is deleted", () => {
    const { setCluster, hub, rules } = stage();
    setCluster(ofCluster("a"));
    setCluster(ofCluster("a", { mode: "Never" }, 2));
    expect(rules()).toEqual(["cluster/a"]);
    expect(hub.judgementOf("a", { uid: "a", generation: 2 })?.ready).toBe(false);
    setCluster();
    expect(rules()).toEqual([]);
    // Its taint can still be taken off.
    expect(hub.inForce?.policy.declared.ids.has("taint/supported-arch:NoSchedule")).toBe(true);
  });

  it("is confirmed by its annotation", () => {
    const { hub, setCluster } = stage();
    const policy = ofCluster("a");
    const metadata = { ...policy.metadata, annotations: { [BOOTSTRAP_ANNOTATION]: "true" } };
    setCluster({ ...policy, metadata }, ofCluster("b"));
    expect(hub.inForce?.policies.map(({ confirmed }) => confirmed)).toEqual([true, false]);
  });
});

it("what is wrong with a policy of a file is told where it stands there", () => {
  const { hub } = stage();
  hub.setConfig([ofFile("bad", { mode: "Both", taint: { key: "readiness.k8s.io/x" } })]);
  expect(hub.configFaults()).toEqual([
    {
      file: "policies.yaml",
      line: 7,
      column: 3,
      severity: "error",
      reason: "ArchitecturePolicyInvalid",
      message: expect.stringMatching(/^bad: taint\.key: /),
    },
  ]);
});
