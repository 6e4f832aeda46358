import { type StartupGate, startupGateSpec } from "@berth/placement";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import type { LocatedStartupGate } from "./config/settings.ts";
import { GONE_MS, readClusterGates, StartupGateHub } from "./startup-gates.ts";

const spec = (key: string) => ({ taint: { key }, signals: { labelsSettled: true } });

function ofCluster(name: string, key: string, more: object = {}): StartupGate {
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "StartupGate",
    metadata: { name, uid: name, generation: 1 },
    spec: { ...spec(key), ...more },
  };
}

function ofFile(name: string, key: string): LocatedStartupGate {
  return {
    name,
    spec: startupGateSpec.parse(spec(key)),
    file: "gates.yaml",
    positionOf: () => ({}),
  } as unknown as LocatedStartupGate;
}

interface Stage {
  readonly clock: VirtualClock;
  readonly hub: StartupGateHub;
  readonly changes: () => number;
  readonly setCluster: (...gates: readonly StartupGate[]) => void;
  readonly gone: () => readonly string[];
}

function stage(): Stage {
  const clock = createVirtualClock();
  let changes = 0;
  const hub = new StartupGateHub({ clock, onChange: () => (changes += 1) });
  return {
    clock,
    hub,
    changes: () => changes,
    setCluster: (...gates) => hub.setCluster(readClusterGates(gates)),
    gone: () => (hub.gates?.gone ?? []).map(({ spec: { taint } }) => taint.key),
  };
}

describe("sources of gates", () => {
  it("are not settled before the cluster has been read: a gate that is in no file may be there", () => {
    const { hub, setCluster } = stage();
    hub.setConfig([]);
    expect(hub.gates?.policy.unsettled?.sources).toEqual(new Set(["config"]));
    setCluster();
    expect(hub.gates?.policy.unsettled).toBeUndefined();
  });

  it("are settled without the cluster when it is said that it will not be read, and go on when it is", () => {
    const { hub, setCluster } = stage();
    hub.setConfig([ofFile("a", "example.com/a")]);
    hub.settle();
    expect([hub.gates?.policy.unsettled, hub.gates?.policy.sourcesRead]).toEqual([
      undefined,
      new Set(["config"]),
    ]);
    setCluster(ofCluster("b", "example.com/b"));
    expect(hub.gates?.gates.map(({ rule }) => rule)).toEqual(["config/a", "cluster/b"]);
  });
});

describe("a gate that is gone", () => {
  it("is remembered for a while, and forgotten without anybody looking again", async () => {
    const { clock, hub, setCluster, gone, changes } = stage();
    setCluster(ofCluster("a", "example.com/a"), ofCluster("b", "example.com/b"));
    setCluster(ofCluster("b", "example.com/b"));
    expect(gone()).toEqual(["example.com/a"]);
    const before = changes();
    await clock.advance(GONE_MS - 1);
    hub.forgetGone();
    expect(gone()).toEqual(["example.com/a"]);
    await clock.advance(1);
    hub.forgetGone();
    expect([gone(), changes()]).toEqual([[], before]);
  });

  it("is one that has another taint now, too", () => {
    const { setCluster, gone } = stage();
    setCluster(ofCluster("a", "example.com/a"));
    setCluster(ofCluster("a", "example.com/other"));
    expect(gone()).toEqual(["example.com/a"]);
  });

  it("is none that has a fault, as long as it is there", () => {
    const { setCluster, gone } = stage();
    setCluster(ofCluster("a", "example.com/a"));
    setCluster(ofCluster("a", "example.com/a", { mode: "Never" }));
    expect(gone()).toEqual([]);
    setCluster();
    expect(gone()).toEqual(["example.com/a"]);
  });

  it("is none that has moved or was renamed: another has its taint", () => {
    const { hub, setCluster, gone } = stage();
    hub.setConfig([ofFile("a", "example.com/a")]);
    setCluster(ofCluster("a", "example.com/a"));
    hub.setConfig([]);
    expect(gone()).toEqual([]);
    setCluster(ofCluster("renamed", "example.com/a"));
    expect(gone()).toEqual([]);
    setCluster();
    expect(gone()).toEqual(["example.com/a"]);
  });
});
