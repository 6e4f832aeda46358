import {
  ApiError,
  type ApiFailure,
  type KubeObject,
  type Lease,
  type ObjectName,
  type Resource,
} from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Clock, createVirtualClock, sleep, type VirtualClock } from "./clock.ts";
import { createSilentLogger } from "./json-log.ts";
import {
  type LeaderElectionOptions,
  LeaderElector,
  type LeaseClient,
  type TermEnd,
} from "./leader-election.ts";

const silent = createSilentLogger();
const lease = { namespace: "berth-system", name: "berth" };

/** One compare-and-swap register, which is all that an election asks of the API server. */
class Register {
  current: Lease | undefined;
  #revision = 0;

  apply(verb: "get" | "create" | "replace", object?: Lease): Lease {
    if (verb !== "create" && this.current === undefined) throw failed({ kind: "notFound" });
    if (verb === "create" && this.current !== undefined) throw failed({ kind: "alreadyExists" });
    const { uid, resourceVersion } = this.current?.metadata ?? {};
    if (verb === "replace" && object?.metadata?.resourceVersion !== resourceVersion)
      throw failed({ kind: "conflict", causes: [] });
    if (object !== undefined) {
      this.#revision += 1;
      const metadata = {
        ...object.metadata,
        uid: uid ?? `uid-${this.#revision}`,
        resourceVersion: `${this.#revision}`,
      };
      this.current = { ...object, metadata };
    }
    if (this.current === undefined) throw failed({ kind: "notFound" });
    return this.current;
  }
}

function failed(failure: ApiFailure): ApiError {
  return new ApiError(failure, { verb: "update", resource: "leases.coordination.k8s.io" });
}

/** What one request meets: time until it reaches the register and until its answer arrives; never, if lost. */
interface Weather {
  readonly thereMs: number;
  readonly backMs: number;
  readonly lost?: "request" | "answer";
}

const CALM: Weather = { thereMs: 1, backMs: 1 };

function clientOf(register: Register, clock: Clock, weather: () => Weather): LeaseClient {
  type Options = { readonly signal?: AbortSignal; readonly timeoutMs?: number } | undefined;
  const send = (
    verb: "get" | "create" | "replace",
    options: Options,
    object?: KubeObject,
  ): Promise<KubeObject> =>
    new Promise((resolve, reject) => {
      const { thereMs, backMs, lost } = weather();
      const timeoutMs = options?.timeoutMs ?? 30_000;
      const stop = (): void => reject(failed({ kind: "aborted" }));
      const finish = (settle: () => void): void => {
        options?.signal?.removeEventListener("abort", stop);
        settle();
      };
      options?.signal?.addEventListener("abort", stop, { once: true });
      clock.schedule(timeoutMs, () => finish(() => reject(failed({ kind: "timeout", afterMs: timeoutMs }))));
      if (lost === "request") return;
      clock.schedule(thereMs, () => {
        const answer = settledBy(() => register.apply(verb, object));
        const deliver = (): void => ("error" in answer ? reject(answer.error) : resolve(answer.value));
        if (lost !== "answer") clock.schedule(backMs, () => finish(deliver));
      });
    });
  return {
    get: async <T extends KubeObject>(_: Resource<T>, _of: ObjectName, options: Options) =>
      (await send("get", options)) as T,
    create: async <T extends KubeObject>(_: Resource<T>, object: T, options: Options) =>
      (await send("create", options, object)) as T,
    replace: async <T extends KubeObject>(_: Resource<T>, object: T, options: Options) =>
      (await send("replace", options, object)) as T,
  };
}

function settledBy<T>(run: () => T): { readonly value: T } | { readonly error: Error } {
  try {
    return { value: run() };
  } catch (error) {
    return { error: error as Error };
  }
}

interface Candidate {
  readonly elector: LeaderElector;
  readonly stop: AbortController;
  /** The signals of its terms, in order. */
  readonly terms: AbortSignal[];
  readonly ended: TermEnd[];
  readonly done: Promise<void>;
}

/** Runs one term after the other until stopped. */
function candidate(
  options: Partial<LeaderElectionOptions> & { client: LeaseClient; clock: Clock },
  onLead = (): void => {},
): Candidate {
  const elector = new LeaderElector({ lease, identity: "a", log: silent, random: () => 0, ...options });
  const stop = new AbortController();
  const [terms, ended]: [AbortSignal[], TermEnd[]] = [[], []];
  const onStartedLeading = (lead: AbortSignal): void => {
    onLead();
    terms.push(lead);
  };
  const done = (async () => {
    while (!stop.signal.aborted) ended.push(await elector.run(stop.signal, { onStartedLeading }));
  })();
  return { elector, stop, terms, ended, done };
}

function world(): { clock: VirtualClock; register: Register; client: LeaseClient } {
  const [clock, register] = [createVirtualClock(), new Register()];
  return { clock, register, client: clientOf(register, clock, () => CALM) };
}

describe("LeaderElector", () => {
  it("creates the lease, leads, renews it, and gives it up when stopped", async () => {
    const { clock, register, client } = world();
    const a = candidate({ client, clock });
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

  it("takes a released lease at its next attempt and counts the transition", async () => {
    const { clock, register, client } = world();
    const a = candidate({ client, clock });
    await clock.advance(100);
    const b = candidate({ client, clock, identity: "b" });
    await clock.advance(5000);
    expect([a.elector.leading, b.elector.leading, b.elector.holder]).toEqual([true, false, "a"]);
    a.stop.abort();
    await clock.advance(2500);
    expect(b.elector.leading).toBe(true);
    expect(register.current?.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
    b.stop.abort();
    await clock.advance(100);
    await Promise.all([a.done, b.done]);
  });

  it("keeps what else is in the lease", async () => {
    const { clock, register, client } = world();
    const foreign: Lease & { readonly spec: Readonly<Record<string, unknown>> } = {
      metadata: { ...lease, labels: { team: "x" } },
      spec: { futureField: 137 },
    };
    register.apply("create", foreign);
    const a = candidate({ client, clock });
    await clock.advance(5000);
    expect(register.current).toMatchObject({
      metadata: { labels: { team: "x" } },
      spec: { futureField: 137, holderIdentity: "a" },
    });
    a.stop.abort();
    await clock.advance(100);
    await a.done;
  });

  it("I-17 may write until a freeze outlasts the deadline, before any timer has run, and not before it leads again", async () => {
    const { clock, client, register } = world();
    let frozenMs = 0;
    const frozen = { ...clock, monotonic: () => clock.monotonic() + frozenMs };
    const a = candidate({ client, clock: frozen });
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

    const b = candidate({ client, clock, identity: "b" });
    await clock.advance(20_000);
    expect(b.elector.mayWrite).toBe(true);
    const { current } = register;
    register.apply("replace", { ...current, spec: { ...current?.spec, holderIdentity: "thief" } });
    await clock.advance(2_500);
    expect([b.ended, b.elector.mayWrite]).toEqual([["lost"], false]);
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
    const a = candidate({ client, clock });
    await clock.advance(30_000);
    expect(a.elector.leading).toBe(false);
    await clock.advance(2500);
    expect(a.elector.leading).toBe(true);
    a.stop.abort();
    await clock.advance(100);
    await a.done;
  });

  it("does not take over at once when the lease of a living leader is deleted, and the leader makes it again", async () => {
    const { clock, register, client } = world();
    const a = candidate({ client, clock });
    await clock.advance(100);
    const b = candidate({ client, clock, identity: "b" });
    await clock.advance(1000);
    register.current = undefined;
    await clock.advance(10_000);
    expect([a.terms.length, a.elector.leading, b.elector.leading]).toEqual([1, true, false]);
    for (const c of [a, b]) c.stop.abort();
    await clock.advance(100);
    await Promise.all([a.done, b.done]);
  });

  it("stops at once when it finds another holder", async () => {
    const { clock, register, client } = world();
    const a = candidate({ client, clock });
    await clock.advance(100);
    const current = register.current;
    register.apply("replace", { ...current, spec: { ...current?.spec, holderIdentity: "thief" } });
    await clock.advance(2500);
    expect(a.ended).toEqual(["lost"]);
    expect(a.terms[0]?.aborted).toBe(true);
    a.stop.abort();
    await clock.advance(100);
    await a.done;
  });

  it("stops leading at the renew deadline without contact, and says why it is not well", async () => {
    const { clock, register } = world();
    let weather: Weather = CALM;
    const a = candidate({ clock, client: clientOf(register, clock, () => weather) });
    await clock.advance(100);
    weather = { ...CALM, lost: "request" };
    await clock.advance(9800);
    expect(a.elector.leading).toBe(true);
    await clock.advance(200);
    expect(a.elector.leading).toBe(false);
    expect(a.terms[0]?.aborted).toBe(true);
    await clock.advance(20_000);
    expect(a.elector.problem()).toContain("no answer in time");
    weather = CALM;
    await clock.advance(10_000);
    expect([a.elector.leading, a.elector.problem()]).toEqual([true, undefined]);
    a.stop.abort();
    await clock.advance(100);
    await a.done;
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

  it("refuses durations that contradict each other", () => {
    const { clock, client } = world();
    const base = { lease, identity: "a", log: silent, client, clock };
    expect(() => new LeaderElector({ ...base, renewDeadlineMs: 15_000 })).toThrow(RangeError);
    expect(() => new LeaderElector({ ...base, retryPeriodMs: 9000 })).toThrow(RangeError);
    expect(() => new LeaderElector({ ...base, identity: "" })).toThrow(RangeError);
  });
});

const weather: fc.Arbitrary<Weather> = fc.record(
  {
    thereMs: fc.integer({ min: 0, max: 7000 }),
    backMs: fc.integer({ min: 0, max: 7000 }),
    lost: fc.constantFrom("request" as const, "answer" as const),
  },
  { requiredKeys: ["thereMs", "backMs"] },
);
/** What happens to one candidate: it vanishes with its requests still under way, stops in order, or is cut off. */
const blow = fc.record({
  afterMs: fc.integer({ min: 0, max: 40_000 }),
  who: fc.nat({ max: 2 }),
  what: fc.constantFrom("crash" as const, "stop" as const, "partition" as const, "heal" as const),
});

describe("LeaderElector, any network", () => {
  it("never has two leaders, and has one again soon after the network is well", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(CALM) }, weather), {
          minLength: 1,
          maxLength: 40,
        }),
        fc.array(blow, { maxLength: 8 }),
        fc.array(fc.integer({ min: -1e9, max: 1e9 }), { minLength: 3, maxLength: 3 }),
        async (storm, blows, skews) => {
          const [clock, register] = [createVirtualClock(), new Register()];
          const [crashed, cut] = [new Set<number>(), new Set<number>()];
          let [requests, calm] = [0, false];
          // Whoever led at the moment when somebody else began to.
          const rivals: number[] = [];
          const next = (id: number): Weather => {
            if (crashed.has(id) || cut.has(id)) return { ...CALM, lost: "request" };
            return calm ? CALM : (storm[requests++ % storm.length] ?? CALM);
          };
          const leaders = (): number[] =>
            all.flatMap((c, id) => (!crashed.has(id) && c.terms.some((term) => !term.aborted) ? [id] : []));
          const all: Candidate[] = skews.map((skewMs, id) => {
            const skewed: Clock = {
              ...clock,
              now: () => clock.now() + skewMs,
              monotonic: () => clock.monotonic() + skewMs,
            };
            const client = clientOf(register, clock, () => next(id));
            return candidate(
              { client, clock: skewed, identity: `c${id}`, random: () => (requests % 7) / 7 },
              () => {
                rivals.push(...leaders());
              },
            );
          });
          for (const { afterMs, who, what } of blows) {
            await clock.advance(afterMs);
            if (what === "crash") crashed.add(who);
            if (what === "stop") all[who]?.stop.abort();
            if (what === "partition") cut.add(who);
            if (what === "heal") cut.delete(who);
          }
          calm = true;
          cut.clear();
          await clock.advance(60_000);
          const alive = all.filter((c, id) => !crashed.has(id) && !c.stop.signal.aborted);
          expect(leaders().length).toBe(alive.length > 0 ? 1 : 0);
          expect(rivals).toEqual([]);
          crashed.clear();
          for (const c of all) c.stop.abort();
          await clock.advance(60_000);
          await Promise.all(all.map((c) => c.done));
        },
      ),
      { numRuns: 150 },
    );
  }, 120_000);
});
