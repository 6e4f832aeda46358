import type { Lease } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import { createSilentLogger } from "./json-log.ts";
import {
  type LeaderElectionOptions,
  LeaderElector,
  type LeaseClient,
  type TermEnd,
} from "./leader-election.ts";
import {
  CALM,
  createMachine,
  LeaseRegister,
  type LeaseWeather,
  leaseClientOf,
} from "./testing/lease-world.ts";

const silent = createSilentLogger();
const lease = { namespace: "berth-system", name: "berth" };

/** Runs one term after the other until stopped. */
function candidate(
  clock: VirtualClock,
  options: Partial<LeaderElectionOptions> & { readonly client: LeaseClient },
) {
  const elector = new LeaderElector({
    lease,
    identity: "a",
    log: silent,
    clock,
    random: () => 0,
    ...options,
  });
  const stop = new AbortController();
  const [terms, ended]: [AbortSignal[], TermEnd[]] = [[], []];
  const onStartedLeading = (lead: AbortSignal): void => void terms.push(lead);
  const done = (async () => {
    while (!stop.signal.aborted) ended.push(await elector.run(stop.signal, { onStartedLeading }));
  })();
  const dispose = async (): Promise<void> => {
    stop.abort();
    await clock.advance(20_000);
    await done;
  };
  return { elector, stop, terms, ended, done, [Symbol.asyncDispose]: dispose };
}

/** `weather`: what every request meets from now on. */
function world() {
  const [clock, register] = [createVirtualClock(), new LeaseRegister(() => undefined)];
  const machine = createMachine(clock, { rate: 1, skewMs: 0 });
  const client = leaseClientOf(register, { truth: clock, machine, weather: () => made.weather });
  const made: { weather: LeaseWeather } = { weather: CALM };
  return Object.assign(made, { clock, register, client });
}

describe("LeaderElector", () => {
  it("creates the lease, leads, renews it, and gives it up when stopped", async () => {
    const { clock, register, client } = world();
    await using a = candidate(clock, { client });
    await clock.advance(100);
    expect(a.elector.leading).toBe(true);
    expect(register.current?.spec).toEqual({
      holderIdentity: "a",
      leaseDurationSeconds: 15,
      acquireTime: "2026-01-01T00:00:00.002000Z",
      renewTime: "2026-01-01T00:00:00.002000Z",
      leaseTransitions: 0,
    });
    await clock.advance(60_000);
    expect(a.terms).toHaveLength(1);
    expect(register.current?.spec?.renewTime).not.toBe(register.current?.spec?.acquireTime);
    a.stop.abort();
    await clock.advance(100);
    await a.done;
    expect(a.ended).toEqual(["stopped"]);
    expect(register.current?.spec).toMatchObject({
      holderIdentity: "",
      leaseDurationSeconds: 1,
      leaseTransitions: 0,
    });
  });

  it("keeps what else is in the lease", async () => {
    const { clock, register, client } = world();
    const foreign: Lease & { readonly spec: Readonly<Record<string, unknown>> } = {
      metadata: { ...lease, labels: { team: "x" } },
      spec: { futureField: 137 },
    };
    register.apply("create", foreign);
    await using _a = candidate(clock, { client });
    await clock.advance(5000);
    expect(register.current).toMatchObject({
      metadata: { labels: { team: "x" } },
      spec: { futureField: 137, holderIdentity: "a" },
    });
  });

  it("I-17 may write until a freeze outlasts the deadline, before any timer has run, and not before it leads again", async () => {
    const { clock, client, register } = world();
    let frozenMs = 0;
    const frozen = { ...clock, monotonic: () => clock.monotonic() + frozenMs };
    await using a = candidate(clock, { client, clock: frozen });
    // Standing by, it writes what is no leader's work.
    expect([a.elector.leading, a.elector.mayWrite]).toEqual([false, true]);
    await clock.advance(100);
    expect([a.elector.leading, a.elector.mayWrite]).toEqual([true, true]);
    frozenMs = 9_000;
    expect(a.elector.mayWrite).toBe(true);
    frozenMs = 12_000;
    expect([a.elector.mayWrite, a.ended]).toEqual([false, []]);
    a.stop.abort();
    await clock.advance(20_000);
    await a.done;

    await using b = candidate(clock, { client, identity: "b" });
    await clock.advance(20_000);
    expect(b.elector.mayWrite).toBe(true);
    const { current } = register;
    register.apply("replace", { ...current, spec: { ...current?.spec, holderIdentity: "thief" } });
    await clock.advance(2_500);
    expect([b.ended, b.terms[0]?.aborted, b.elector.mayWrite]).toEqual([["lost"], true, false]);
    await clock.advance(30_000);
    expect([b.elector.leading, b.elector.mayWrite]).toEqual([true, true]);
    b.stop.abort();
    await clock.advance(100);
    await b.done;
    expect(b.elector.mayWrite).toBe(true);
  });

  it("waits the holder's lease duration by its own clock, however wrong the holder's is", async () => {
    const { clock, register, client } = world();
    const spec = {
      holderIdentity: "crashed",
      leaseDurationSeconds: 30,
      renewTime: "1999-01-01T00:00:00.000000Z",
    };
    register.apply("create", { metadata: lease, spec });
    await using a = candidate(clock, { client });
    await clock.advance(30_000);
    expect(a.elector.leading).toBe(false);
    await clock.advance(2500);
    expect(a.elector.leading).toBe(true);
  });

  it("does not take over at once when the lease of a living leader is deleted, and the leader makes it again", async () => {
    const { clock, register, client } = world();
    await using a = candidate(clock, { client });
    await clock.advance(100);
    await using b = candidate(clock, { client, identity: "b" });
    await clock.advance(1000);
    register.forget();
    await clock.advance(10_000);
    expect([a.terms.length, a.elector.leading, b.elector.leading]).toEqual([1, true, false]);
  });

  it("stops leading at the renew deadline without contact, and says why it is not well", async () => {
    const all = world();
    const { clock, client } = all;
    await using a = candidate(clock, { client });
    await clock.advance(100);
    all.weather = { ...CALM, fault: "request lost" };
    await clock.advance(9800);
    expect(a.elector.leading).toBe(true);
    await clock.advance(200);
    expect(a.elector.leading).toBe(false);
    expect(a.terms[0]?.aborted).toBe(true);
    await clock.advance(20_000);
    expect(a.elector.problem()).toContain("no answer in time");
    all.weather = CALM;
    await clock.advance(10_000);
    expect([a.elector.leading, a.elector.problem()]).toEqual([true, undefined]);
  });

  it("releases only after the work has ended, and not at all when it ends too late", async () => {
    for (const [workMs, holder] of [
      [3000, ""],
      [60_000, "a"],
    ] as const) {
      const { clock, register, client } = world();
      const elector = new LeaderElector({ lease, identity: "a", log: silent, client, clock });
      const stop = new AbortController();
      const run = elector.run(stop.signal, {
        onStartedLeading: (lead) =>
          new Promise((resolve) =>
            lead.addEventListener("abort", () => void sleep(clock, workMs).then(() => resolve())),
          ),
      });
      await clock.advance(100);
      stop.abort();
      await clock.advance(2900);
      expect(register.current?.spec?.holderIdentity).toBe("a");
      await clock.advance(20_000);
      expect(await run).toBe("stopped");
      expect(register.current?.spec?.holderIdentity).toBe(holder);
    }
  });

  it("rejects with the failure of the work, after giving the lease up", async () => {
    const { clock, register, client } = world();
    const elector = new LeaderElector({ lease, identity: "a", log: silent, client, clock });
    const run = elector.run(new AbortController().signal, {
      onStartedLeading: () => Promise.reject(new Error("broken")),
    });
    const outcome = run.catch((error: unknown) => error);
    await clock.advance(1000);
    expect(await outcome).toEqual(new Error("broken"));
    expect(register.current?.spec?.holderIdentity).toBe("");
  });

  it.each([{ renewDeadlineMs: 15_000 }, { retryPeriodMs: 9000 }, { identity: "" }])(
    "refuses %j",
    (options) => {
      const { clock, client } = world();
      const base = { lease, identity: "a", log: silent, client, clock };
      expect(() => new LeaderElector({ ...base, ...options })).toThrow(RangeError);
    },
  );
});
