/** Random outages of a permission, seen by many callers that come back when they are told to. */
import type { ApiFailure, RequestInfo } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isShared } from "../shared-failure.ts";
import { PATCH, world } from "../testing/gates-world.ts";
import { seededRun } from "../testing/property.ts";

const run = seededRun(60, process.env);

const names = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `n${at}`);

describe("I-15 requests of a kind that the server refuses", () => {
  it("are sent one at a time and with backoff, however many wait, and all soon after the permission is back", async () => {
    const { clock, server, doneAt, write, refused, taken } = world();
    server.mood = () => ({ kind: "forbidden" });
    for (const name of names(500)) void write(name);
    await clock.advance(250);
    const atFirst = server.sentAt.length;
    await clock.advance(600_000);
    // 250 ms to 25 s in seven doublings, then one each 12.5 s to 25 s.
    expect(server.sentAt.length - atFirst).toBeLessThan(8 + 600 / 12.5);
    server.mood = () => undefined;
    await clock.advance(30_000);
    expect(doneAt.size).toBe(500);
    expect([refused.length, taken.length]).toEqual([1, 1]);
  });

  it("hold back nothing else: neither another verb, nor resource, nor namespace", async () => {
    const { clock, server, gates } = world();
    server.mood = ({ namespace }) => (namespace === "a" ? { kind: "forbidden" } : undefined);
    const send = (about: RequestInfo): Promise<void> => gates.run(about, () => server.answer(about));
    const inA = { ...PATCH, namespace: "a" };
    const first = send(inA).catch(isShared);
    await clock.advance(10);
    expect(await first).toBe(true);
    await expect(send(inA)).rejects.toMatchObject({ isShared: true });
    const others = [
      { ...inA, verb: "get" },
      { ...inA, resource: "pods" },
      { ...inA, namespace: "b" },
    ] as const;
    for (const about of others) {
      const sent = server.sentAt.length;
      void send(about).catch(() => undefined);
      expect(server.sentAt.length).toBe(sent + 1);
    }
    await clock.advance(10);
  });

  it("are not those of one object that admission refuses: all others are written as they come", async () => {
    const { clock, server, doneAt, write } = world();
    server.mood = ({ name }) => (name === "n0" ? { kind: "forbidden", ofObject: true } : undefined);
    for (const name of names(100)) void write(name);
    await clock.advance(5);
    expect(doneAt.size).toBe(99);
    server.mood = () => undefined;
    await clock.advance(1_010);
    expect(doneAt.size).toBe(100);
  });

  it("get each their turn, so that one that is allowed by its name goes through", async () => {
    const { clock, server, doneAt, write } = world();
    server.mood = ({ name }) => (name === "n7" ? undefined : { kind: "forbidden" });
    for (const name of names(7)) void write(name);
    await clock.advance(500);
    void write("n7");
    await clock.advance(120_000);
    expect([...doneAt.keys()]).toEqual(["n7"]);
  });

  it("stay held back by a trial that says nothing about the permission, and are let go by one that does", async () => {
    const { clock, server, gates } = world();
    const fail = async (failure: ApiFailure | undefined): Promise<void> => {
      server.mood = () => failure;
      const sent = gates.run(PATCH, () => server.answer(PATCH)).catch(() => undefined);
      await clock.advance(5);
      await sent;
    };
    for (const [failure, isHeld] of [
      [{ kind: "serverError", status: 500 }, true],
      [{ kind: "tooManyRequests", causes: [] }, true],
      [{ kind: "unreachable" }, true],
      [{ kind: "forbidden" }, true],
      [{ kind: "conflict", causes: [] }, false],
      [{ kind: "notFound" }, false],
      [{ kind: "forbidden", ofObject: true }, false],
      [undefined, false],
    ] as const) {
      await fail({ kind: "forbidden" });
      expect(gates.refused).toHaveLength(1);
      await clock.advance(30_000);
      await fail(failure);
      expect(gates.refused).toHaveLength(isHeld ? 1 : 0);
      await clock.advance(30_000);
      await fail(undefined);
    }
  });

  it("do not wait for a trial when their caller stops", async () => {
    const { clock, server, gates } = world();
    const send = (signal?: AbortSignal): Promise<void> =>
      gates.run(PATCH, () => server.answer(PATCH), signal);
    server.mood = () => ({ kind: "forbidden" });
    void send().catch(() => undefined);
    await clock.advance(30_000);
    server.tookMs = 60_000;
    void send().catch(() => undefined);
    const stop = new AbortController();
    const waiting = send(stop.signal);
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ failure: { kind: "aborted" } });
    await clock.advance(60_000);
  });

  const outage = fc.record({
    /** Callers begin at these times, ms. */
    begin: fc.array(fc.integer({ min: 0, max: 120_000 }), { minLength: 1, maxLength: 40 }),
    /** The permission is taken away and given back, in turn. */
    turns: fc.array(fc.integer({ min: 0, max: 60_000 }), { maxLength: 7 }),
    tookMs: fc.constantFrom(0, 5, 400),
    jitter: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 9 }),
    failure: fc.constantFrom<ApiFailure | undefined>(undefined, { kind: "serverError", status: 503 }),
  });

  it(
    `are all written within 30 s of the permission, with one request at a time until then (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(outage, async ({ begin, turns, tookMs, jitter, failure }) => {
          let [at, asks] = [0, 0];
          const w = world(() => jitter[at++ % jitter.length] ?? 0);
          w.server.tookMs = tookMs;
          const seen: { readonly sent: number; readonly inFlight: number }[] = [];
          let isRefused = false;
          const other = (): ApiFailure | undefined => (at % 5 === 0 ? failure : undefined);
          w.server.mood = () => (isRefused ? { kind: "forbidden" } : other());
          begin.forEach((ms, index) => w.clock.schedule(ms, () => void w.write(`n${index}`)));
          for (const ms of turns) {
            await w.clock.advance(ms);
            isRefused = !isRefused;
            if (isRefused) {
              // One more asks, so the refusal is known, and all that were sent before that have their answer.
              await w.clock.advance(tookMs);
              void w.write(`asks${asks++}`);
              await w.clock.advance(2 * tookMs);
              // Of the rest one is sent at a time, each 12 s at the most often, in the end.
              const before = w.server.sentAt.length;
              await w.clock.advance(60_000);
              seen.push({ sent: w.server.sentAt.length - before, inFlight: w.server.inFlight });
            }
          }
          isRefused = false;
          w.server.mood = () => undefined;
          await w.clock.advance(Math.max(0, 120_000 - w.clock.monotonic()) + 30_000);
          expect(w.doneAt.size).toBe(begin.length + asks);
          expect(
            seen.filter(({ sent, inFlight }) => sent > begin.length + asks + 15 || inFlight > 1),
          ).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
