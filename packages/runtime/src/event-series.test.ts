import { nodes, pods } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  EVENT_LIMITS,
  EventBook,
  type EventInput,
  type EventSeries,
  referenceTo,
  seriesOf,
} from "./event-series.ts";

const node = { apiVersion: "v1", kind: "Node", name: "n1", uid: "u1" };
const what = { reason: "GateClosed", note: "waiting", type: "Normal", action: "Gate" } as const;
const gated: EventInput = { regarding: node, ...what };

const reporter = { reportingController: "berth.dev/controller", reportingInstance: "pod-1" };
const book = (): EventBook => new EventBook({ ...reporter, random: () => 0.5 });

function written(input: Partial<EventInput>): EventSeries["event"] {
  const b = book();
  expect(b.record({ ...gated, ...input }, 0, 0)).toBe("new");
  const event = b.next()?.event;
  if (event === undefined) throw new Error("nothing to write");
  return event;
}

describe("EventBook", () => {
  it("makes one Event of the first and a series of its equals, updated ever more rarely", () => {
    const b = book();
    expect(b.record(gated, 1000, 0)).toBe("new");
    const series = b.next();
    if (series === undefined) throw new Error("nothing to write");
    expect([series.dueAt, seriesOf(series)]).toEqual([0, undefined]);
    b.written(series, 1, 0);
    expect(b.next()).toBeUndefined();
    const updates: number[] = [];
    for (let atMs = 1000; atMs <= 600_000; atMs += 1000) {
      expect(b.record(gated, atMs, atMs)).toBe("counted");
      for (let due = b.next(); due !== undefined && due.dueAt <= atMs; due = b.next()) {
        updates.push(atMs);
        b.written(due, due.count, atMs);
      }
    }
    expect(updates.length).toBeLessThanOrEqual(7);
    expect(updates[0]).toBe(11_000);
    expect(series.count).toBe(601);
  });

  it("begins a new Event after a gap, and for any difference", () => {
    const b = book();
    const outcomes = [
      b.record(gated, 0, 0),
      b.record({ ...gated, note: "other" }, 0, 0),
      b.record({ ...gated, type: "Warning" }, 0, 0),
      b.record({ ...gated, regarding: { ...node, uid: "u2" } }, 0, 0),
      b.record(gated, 0, EVENT_LIMITS.seriesGapMs),
      b.record(gated, 0, 2 * EVENT_LIMITS.seriesGapMs + 1),
    ];
    expect(outcomes).toEqual(["new", "new", "new", "new", "counted", "new"]);
  });

  it("lets one object have 25 Events, then one every five minutes, and others theirs", () => {
    const b = book();
    const burst = Array.from({ length: 30 }, (_, i) => b.record({ ...gated, note: `${i}` }, 0, 0));
    expect(burst.filter((outcome) => outcome === "new")).toHaveLength(25);
    expect(burst.slice(25)).toEqual(Array(5).fill("limited"));
    expect(b.record({ ...gated, regarding: { ...node, name: "n2" } }, 0, 0)).toBe("new");
    expect(b.record({ ...gated, note: "later" }, 0, 300_000)).toBe("new");
    expect(b.record({ ...gated, note: "too soon" }, 0, 300_001)).toBe("limited");
  });

  it("holds a bounded number of Events that are not created, and takes more once some are", () => {
    const b = book();
    const about = (i: number): EventInput => ({ ...gated, regarding: { ...node, name: `n${i}` } });
    const outcomes = Array.from({ length: EVENT_LIMITS.maxPending + 1 }, (_, i) => b.record(about(i), 0, 0));
    expect(outcomes.at(-1)).toBe("overflow");
    expect(b.pending).toBe(EVENT_LIMITS.maxPending);
    const first = b.next();
    if (first !== undefined) b.written(first, 1, 0);
    expect(b.record(about(9999), 0, 0)).toBe("new");
  });

  it("I-18 remembers a bounded number of Events, however many objects come and go", () => {
    const b = book();
    const record = (i: number): string => {
      const outcome = b.record({ ...gated, regarding: { ...node, name: `n${i}` } }, 0, 0);
      const due = b.next();
      if (due !== undefined) b.written(due, due.count, 0);
      return outcome;
    };
    for (let i = 0; i < EVENT_LIMITS.maxRemembered; i++) expect(record(i)).toBe("new");
    expect(record(0)).toBe("counted");
    for (let i = 0; i < EVENT_LIMITS.maxRemembered; i++) record(10_000 + i);
    expect(record(0)).toBe("new");
  });

  it("never loses count of what is pending, whatever comes in which order", () => {
    const step = fc.record({
      what: fc.constantFrom("record", "written", "postpone", "drop"),
      id: fc.nat({ max: 5 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const b = book();
        for (const [atMs, { what, id }] of steps.entries()) {
          const next = b.next();
          if (what === "record")
            b.record({ ...gated, regarding: { ...node, name: `n${id}` } }, atMs, atMs * 1000);
          else if (next === undefined) continue;
          else if (what === "written") b.written(next, next.count, atMs * 1000);
          else if (what === "postpone") b.postpone(next, atMs * 1000);
          else b.drop(next);
        }
        for (let next = b.next(); next !== undefined; next = b.next()) {
          expect(next.count).toBeGreaterThan(next.sentCount);
          b.written(next, next.count, 0);
        }
        const fill = Array.from({ length: EVENT_LIMITS.maxPending }, (_, i) =>
          b.record({ ...gated, regarding: { ...node, name: `fill${i}` } }, 0, 1e9),
        );
        expect(new Set(fill)).toEqual(new Set(["new"]));
      }),
      { numRuns: 50 },
    );
  });

  it("cuts what is too long at a character, as the API refuses more bytes", () => {
    const { note, reason, action } = written({ note: "é".repeat(1000), reason: "R".repeat(200), action: "" });
    expect(Buffer.byteLength(note ?? "")).toBeLessThanOrEqual(1024);
    expect(note).toMatch(/^é+…$/);
    expect(Buffer.byteLength(reason ?? "")).toBe(128);
    expect(action).toBe(reason);
  });

  it("puts events about cluster-scoped objects into default, and refers to a Node as kubectl looks for it", () => {
    expect(written({}).metadata?.namespace).toBe("default");
    expect(written({}).regarding).toEqual(node);
    expect(written({ regarding: { kind: "Node", name: "n1" } }).regarding?.uid).toBe("n1");
    const regarding = { kind: "Pod", name: "p", namespace: "ns" };
    expect(written({ regarding }).metadata?.namespace).toBe("ns");
  });

  it("names an Event so that the API takes it, whatever the object is called", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 300 }), (name) => {
        const made = written({ regarding: { kind: "ClusterRole", name } }).metadata?.name ?? "";
        expect(made.length).toBeLessThanOrEqual(253);
        expect(made).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
      }),
      { numRuns: 1000 },
    );
    expect(written({}).metadata?.name).toMatch(/^n1\.[0-9a-f]+$/);
  });

  it("refers to objects with what identifies them", () => {
    const of = { name: "p", namespace: "ns", uid: "u" };
    const pod = { apiVersion: "v1", kind: "Pod", ...of };
    expect(referenceTo(pods, { metadata: { ...of, labels: {} } })).toEqual(pod);
    const unknown = { apiVersion: "v1", kind: "Node", name: "n" };
    expect(referenceTo(nodes, { metadata: { name: "n" } })).toEqual(unknown);
  });
});
