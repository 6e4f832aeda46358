import {
  ApiError,
  type ApiFailure,
  type KubeObject,
  type ObjectName,
  type Patch,
  type Resource,
} from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "./clock.ts";
import type { EventInput } from "./event-series.ts";
import { type EventClient, EventRecorder } from "./events.ts";
import { createSilentLogger } from "./json-log.ts";

const silent = createSilentLogger();
const node = { apiVersion: "v1", kind: "Node", name: "n1", uid: "u1" };
const what = { reason: "GateClosed", note: "waiting", type: "Normal", action: "Gate" } as const;
const gated: EventInput = { regarding: node, ...what };

interface Sent {
  readonly verb: "create" | "patch";
  readonly name: string;
  readonly body: object;
}

/** A line to a server that answers as scripted, one entry per request, and then always well. */
function line(script: (ApiFailure | "ok")[] = []): { readonly client: EventClient; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  const answer = async (request: Sent): Promise<void> => {
    sent.push(request);
    const failure = script.shift() ?? "ok";
    if (failure !== "ok")
      throw new ApiError(failure, { verb: request.verb, resource: "events.events.k8s.io" });
  };
  const client: EventClient = {
    async create<T extends KubeObject>(_: Resource<T>, object: T): Promise<T> {
      await answer({ verb: "create", name: object.metadata?.name ?? "", body: object });
      return object;
    },
    async patch<T extends KubeObject>(_: Resource<T>, of: ObjectName, patch: Patch): Promise<T> {
      await answer({ verb: "patch", name: of.name, body: patch.body });
      return {} as T;
    },
  };
  return { client, sent };
}

/** A server that takes a request and says nothing. */
function untilAborted(
  _: unknown,
  __: unknown,
  options: { readonly signal?: AbortSignal } = {},
): Promise<never> {
  return new Promise((_resolve, reject) =>
    options.signal?.addEventListener("abort", () =>
      reject(new ApiError({ kind: "aborted" }, { verb: "create", resource: "events.events.k8s.io" })),
    ),
  );
}

function recording(client: EventClient) {
  const clock = createVirtualClock();
  const options = { client, clock, log: silent, reportingController: "a.test/b", reportingInstance: "pod-1" };
  const recorder = new EventRecorder({ ...options, random: () => 0.5 });
  const stopping = new AbortController();
  const done = recorder.run(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await clock.advance(3000);
    await done;
  };
  return { recorder, clock, stop, [Symbol.asyncDispose]: stop };
}

describe("EventRecorder", () => {
  it("creates the first and patches the count of the equal ones", async () => {
    const { client, sent } = line();
    await using r = recording(client);
    r.recorder.record(gated);
    await r.clock.advance(1);
    expect(sent).toHaveLength(1);
    expect(sent[0]?.body).toMatchObject({
      eventTime: "2026-01-01T00:00:00.000000Z",
      reportingController: "a.test/b",
      reportingInstance: "pod-1",
      reason: "GateClosed",
    });
    await r.clock.advance(999);
    r.recorder.record(gated);
    await r.clock.advance(1000);
    r.recorder.record(gated);
    await r.clock.advance(20_000);
    const series = { count: 3, lastObservedTime: "2026-01-01T00:00:02.000000Z" };
    expect(sent.slice(1)).toEqual([{ verb: "patch", name: sent[0]?.name, body: { series } }]);
  });

  it("waits while the server cannot be reached, then writes everything once", async () => {
    const { client, sent } = line([{ kind: "unreachable" }, { kind: "unreachable" }]);
    await using r = recording(client);
    for (const note of ["a", "b", "c"]) r.recorder.record({ ...gated, note });
    await r.clock.advance(5000);
    expect(sent).toHaveLength(1);
    await r.clock.advance(30_000);
    expect(sent).toHaveLength(5);
    expect(r.recorder.dropped).toBe(0);
  });

  it("takes a create that got through without its answer as done", async () => {
    const { client, sent } = line([{ kind: "timeout", afterMs: 10_000 }, { kind: "alreadyExists" }]);
    await using r = recording(client);
    r.recorder.record(gated);
    await r.clock.advance(60_000);
    expect(sent).toHaveLength(2);
    expect(r.recorder.dropped).toBe(0);
  });

  it("drops and counts what the server refuses, without trying again, and goes on", async () => {
    const { client, sent } = line([{ kind: "forbidden", ofObject: true }]);
    await using r = recording(client);
    r.recorder.record(gated);
    r.recorder.record({ ...gated, note: "other" });
    await r.clock.advance(60_000);
    expect(sent).toHaveLength(2);
    expect(r.recorder.dropped).toBe(1);
    r.recorder.record({ ...gated, regarding: {} });
    expect(r.recorder.dropped).toBe(2);
  });

  it("I-17 ends at once when it is aborted as a component, though the server never answers; drained, it writes", async () => {
    const clock = createVirtualClock();
    for (const isDrained of [false, true]) {
      const { client, sent } = line();
      const recorder = new EventRecorder({
        client: isDrained ? client : { create: untilAborted, patch: client.patch },
        clock,
        log: silent,
        reportingController: "a.test/b",
        reportingInstance: "pod-1",
      });
      const stop = new AbortController();
      const running = await recorder.start(stop.signal);
      for (const note of ["a", "b"]) recorder.record({ ...gated, note });
      if (isDrained) await running.drain?.();
      stop.abort();
      await running.ended;
      expect([sent.length, recorder.dropped]).toEqual(isDrained ? [2, 0] : [0, 2]);
    }
  });

  it("writes what is left when it stops, and gives up what fails then", async () => {
    const { client, sent } = line(["ok", "ok", { kind: "unreachable" }]);
    const r = recording(client);
    r.recorder.record(gated);
    await r.clock.advance(1);
    r.recorder.record(gated);
    r.recorder.record({ ...gated, note: "other" });
    await r.stop();
    expect(sent.map(({ verb }) => verb).toSorted()).toEqual(["create", "create", "patch"]);
    expect(r.recorder.dropped).toBe(1);
  });
});
