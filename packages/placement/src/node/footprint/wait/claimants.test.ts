import { describe, expect, it } from "vitest";
import { compileFootprints } from "../compile.ts";
import type { Footprints } from "../footprint.ts";
import { documentsOf } from "../testing/footprints.ts";
import { claimantsAfter, isFree, type WantedBy } from "./claimants.ts";

const spec = (name: string) => ({
  workloads: [{ podSelector: { matchLabels: { agent: name } } }],
  node: { label: { key: `${name}.test/agent` } },
});

/** Footprints of the cluster, and of it documents that cannot be read. */
function footprintsOf(
  names: readonly string[],
  faulty: readonly string[] = [],
  files?: string[],
): Footprints {
  const cluster = {
    ...documentsOf(Object.fromEntries(names.map((name) => [name, spec(name)]))),
    unreadable: faulty.map((name) => ({ name, message: "faulty" })),
  };
  const config = documentsOf(Object.fromEntries((files ?? []).map((name) => [name, spec(name)])), "config");
  return compileFootprints({ sources: [config, cluster] });
}

const wantedBy = (wants: Readonly<Record<string, readonly string[]>>): WantedBy =>
  new Map(Object.entries(wants).map(([name, rules]) => [name, new Set(rules)]));

describe("a container that no footprint in force wants", () => {
  it("is free where every document is in force", () => {
    expect(isFree("wait", footprintsOf(["y"]))).toBe(true);
    expect(isFree("wait", footprintsOf([]))).toBe(true);
  });

  it("is not while footprints of the cluster have not been read", () => {
    const unread = compileFootprints({ sources: [documentsOf({ y: spec("y") }, "config")] });
    expect(isFree("wait", unread, wantedBy({ wait: ["config/gone"] }))).toBe(false);
  });

  it("is not while one has a fault since before the process began, but where another was seen to want it", () => {
    const footprints = footprintsOf(["y"], ["x"]);
    expect(isFree("wait", footprints)).toBe(false);
    expect(isFree("wait", footprints, wantedBy({ wait: ["cluster/gone"] }))).toBe(true);
    expect(isFree("wait", footprints, wantedBy({ wait: ["cluster/gone", "cluster/x"] }))).toBe(false);
  });

  it("is where the one with a fault goes on as it was, or a file stands for it", () => {
    const x = footprintsOf(["x"]).footprints;
    const sources = [{ ...documentsOf({}), unreadable: [{ name: "x", message: "faulty" }] }];
    expect(isFree("wait", compileFootprints({ sources, before: x }))).toBe(true);
    expect(isFree("wait", compileFootprints({ sources }))).toBe(false);
    expect(isFree("wait", footprintsOf([], ["x"], ["x"]))).toBe(true);
  });
});

describe("what is remembered of containers", () => {
  it("is by whom they are wanted, and while they stand, were", () => {
    const footprints = footprintsOf(["x", "y"]);
    const first = claimantsAfter(
      new Map(),
      { wantedBy: wantedBy({ a: ["cluster/x"], b: ["cluster/y"] }), kept: [], taken: [] },
      footprints,
    );
    expect(first).toEqual(wantedBy({ a: ["cluster/x"], b: ["cluster/y"] }));
    const next = { wantedBy: wantedBy({ b: ["cluster/z"] }), kept: [], taken: ["a"] };
    expect(claimantsAfter(first, next, footprints)).toEqual(wantedBy({ a: ["cluster/x"], b: ["cluster/z"] }));
    expect(claimantsAfter(first, { kept: [], taken: [] }, footprints)).toBe(first);
    expect(claimantsAfter(first, { ...next, taken: [] }, footprints)).toEqual(wantedBy({ b: ["cluster/z"] }));
  });

  it("holds who wanted them and is not in force any more for a fault", () => {
    const now = { wantedBy: wantedBy({ a: ["cluster/y"] }), kept: [], taken: [] };
    const after = claimantsAfter(wantedBy({ a: ["cluster/x"] }), now, footprintsOf(["y"], ["x"]));
    expect(after).toEqual(wantedBy({ a: ["cluster/x", "cluster/y"] }));
  });
});
