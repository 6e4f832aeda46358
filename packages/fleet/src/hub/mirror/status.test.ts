import { describe, expect, it } from "vitest";
import { aCondition, aTemplate, NOW_MS } from "../../deployment/testing/fixtures.ts";
import { aCell, aFound, aSource, counts, onHub } from "../testing/fixtures.ts";
import { type MirrorView, mirrorStatus } from "./status.ts";

const a = aCell("a");
const stale = { reason: "CellUnreachable", message: "silent", sinceMs: NOW_MS - 20_000 } as const;
const running = counts(2, { observedGeneration: 7, observedSourceGeneration: 1 });
/** The cell counts its generations by itself. */
const inCell = aFound(a, { metadata: { generation: 7 }, status: running }).deployment;
const shown = counts(2, { observedGeneration: 3, observedSourceGeneration: 1 });

const mirror = (view: Partial<MirrorView> = {}) =>
  mirrorStatus({
    to: onHub({ metadata: { generation: 3 } }),
    generation: 1,
    from: inCell,
    own: { Stale: undefined },
    nowMs: NOW_MS,
    ...view,
  });

describe("2.9 the status of a cell comes to the hub", () => {
  it("with the generations of the hub", () => {
    expect(mirror()).toEqual({
      ...counts(2),
      observedGeneration: 3,
      observedSourceGeneration: 1,
      conditions: [],
    });
  });

  it.each<[string, Parameters<typeof aFound>[1]]>([
    ["the cell has not taken up its newest spec", { metadata: { generation: 8 }, status: running }],
    [
      "the cell has another spec",
      { template: aTemplate("app:0"), metadata: { generation: 7 }, status: running },
    ],
    [
      "the cell is of another generation of the source",
      {
        metadata: { generation: 7, annotations: { "compute.datumapis.com/source-generation": "2" } },
        status: running,
      },
    ],
    [
      "the cell echoes another generation",
      { metadata: { generation: 7 }, status: { ...running, observedSourceGeneration: 2 } },
    ],
    [
      "10.17 the cell echoes none",
      { metadata: { generation: 7 }, status: counts(2, { observedGeneration: 7 }) },
    ],
  ])("and the generation stays when %s", (_, fields) => {
    const to = onHub({ metadata: { generation: 3 }, status: counts(1, { observedGeneration: 2 }) });
    expect(mirror({ to, from: aFound(a, fields).deployment })).toEqual({
      ...counts(2),
      observedGeneration: 2,
      conditions: [],
    });
  });

  it("and it is that of an orphan that was adopted, which names its first Workload", () => {
    const to = onHub({ metadata: { generation: 3 }, workload: { name: "w", uid: "uid-anew" } });
    const from = aFound(a, { metadata: { generation: 7 }, status: running }).deployment;
    expect(mirror({ to, from })?.observedGeneration).toBe(3);
  });

  it("and older numbers, as a late watch has them, are no echo any more of what was echoed", () => {
    const metadata = { annotations: { "compute.datumapis.com/source-generation": "2" }, generation: 3 };
    const status = counts(2, { observedGeneration: 3, observedSourceGeneration: 2 });
    expect(mirror({ to: onHub({ metadata, status }), generation: 2 })).toEqual({
      ...counts(2),
      observedGeneration: 3,
      conditions: [],
    });
  });

  it("H19 once", () => {
    const status = mirror();
    expect(mirror({ to: onHub({ metadata: { generation: 3 }, ...(status && { status }) }) })).toBeUndefined();
  });

  it("A18 T2 with the conditions of the cell, about the hub's generation, without any that went, and with its Location", () => {
    const conditions = [{ ...aCondition("Available", "True"), observedGeneration: 7 }];
    const to = onHub({
      metadata: { generation: 3 },
      status: {
        ...shown,
        location: { name: "dfw", namespace: "default" },
        conditions: [aCondition("Failing", "True"), aCondition("LocationAssigned", "True")],
      },
    });
    const { deployment } = aFound(a, { metadata: { generation: 7 }, status: { ...running, conditions } });
    expect(mirror({ to, from: deployment })).toEqual({
      ...to.status,
      conditions: [{ ...conditions[0], observedGeneration: 3 }],
    });
  });

  it("with no more Instances than a deployment can have, whatever the cell says", () => {
    const status = { ...running, replicas: 1e12, readyReplicas: -1, updatedReplicas: 0.5 };
    const found = mirror({ from: aFound(a, { metadata: { generation: 7 }, status }).deployment });
    expect(found).toMatchObject({ replicas: 1_000, readyReplicas: 0, updatedReplicas: 0 });
  });
});

describe("a status that is not heard", () => {
  const to = onHub({ metadata: { generation: 3 }, status: shown });

  it("8.8 stays, and is marked with its age", () => {
    expect(mirror({ to, from: undefined, stale, own: {} })).toEqual({
      ...shown,
      unheard: 2,
      since: "2025-12-31T23:59:40Z",
      conditions: [{ ...aCondition("Stale", "True", "CellUnreachable", "silent"), observedGeneration: 3 }],
    });
  });

  it("is none, and not zero, when the hub has lost it", () => {
    expect(mirror({ to: onHub(), from: undefined, stale, own: {} })).toBeUndefined();
    expect(mirror({ to: onHub(), from: undefined })).toBeUndefined();
  });

  it("is marked once", () => {
    const status = mirror({ to, from: undefined, stale, own: {} });
    const marked = onHub({ metadata: { generation: 3 }, ...(status && { status }) });
    const later = { ...stale, sinceMs: NOW_MS };
    expect(
      mirror({ to: marked, from: undefined, stale: later, own: {}, nowMs: NOW_MS + 60_000 }),
    ).toBeUndefined();
    expect(mirror({ to: marked })).toEqual({ ...shown, conditions: [] });
  });

  it.each<[string, Partial<MirrorView>]>([
    ["the cell does not have it", { from: undefined }],
    ["the cell has said nothing yet", { from: aFound(a).deployment }],
    ["the cell has conditions and no numbers", { from: { ...inCell, status: { conditions: [] } as never } }],
  ])("is not replaced by nothing when %s", (_, view) => {
    expect(mirror({ to, ...view })?.readyReplicas ?? 2).toBe(2);
  });

  it("is replaced by a zero that the cell says", () => {
    const zero = aFound(a, {
      metadata: { uid: "new", generation: 1 },
      status: counts(0, { observedGeneration: 1, observedSourceGeneration: 1 }),
    });
    expect(mirror({ to, from: zero.deployment })).toMatchObject({ readyReplicas: 0, observedGeneration: 3 });
  });
});

describe("the status of the hub comes to the project", () => {
  const source = aSource({ metadata: { generation: 1 } });

  it("with what is unheard", () => {
    const marked = mirror({
      to: onHub({ metadata: { generation: 3 }, status: shown }),
      from: undefined,
      stale,
      own: {},
    });
    const hub = onHub({ metadata: { generation: 3 }, ...(marked && { status: marked }) });
    const status = mirrorStatus({
      to: source,
      generation: 1,
      from: hub,
      own: { Placed: undefined },
      nowMs: NOW_MS,
    });
    expect(status).toMatchObject({ readyReplicas: 2, unheard: 2, observedGeneration: 1 });
    expect(status?.conditions?.map(({ type, reason }) => `${type}/${reason}`)).toEqual([
      "Stale/CellUnreachable",
    ]);
  });

  it("and a generation that is used a second time, with another spec, is not said to be there", () => {
    const hub = onHub({ metadata: { generation: 3 }, status: shown, template: aTemplate("app:0") });
    expect(
      mirrorStatus({ to: source, generation: 1, from: hub, nowMs: NOW_MS })?.observedGeneration,
    ).toBeUndefined();
  });
});
