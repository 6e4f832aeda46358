import * as fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import { createVirtualClock, sleep } from "./clock.ts";
import { type Component, createLoopComponent, createServerComponent, whenAborted } from "./component.ts";
import { createController } from "./controller.ts";
import { runChecks, runOneCheck } from "./health-checks.ts";
import { createSilentLogger } from "./json-log.ts";
import type { LeaderElector } from "./leader-election.ts";
import { describeRunEnd, type LeaderElection, Manager, type ManagerOptions } from "./manager.ts";
import { aComponent, Election, stopAndMeasure } from "./testing/staged.ts";

const log = createSilentLogger();

function fail(message: string): never {
  throw new Error(message);
}

function setUp(options: Partial<ManagerOptions> & Pick<ManagerOptions, "always">) {
  const clock = createVirtualClock();
  const stop = new AbortController();
  const manager = new Manager({ clock, log, ...options });
  const ended = manager.run(stop.signal);
  const ready = (): string => runChecks("readyz", manager.readyChecks, new Set()).text;
  return { clock, stop, manager, ended, ready };
}

describe("Manager", () => {
  it("starts stage by stage and stops in reverse", async () => {
    const story: string[] = [];
    const synced = Promise.withResolvers<boolean>();
    const informer = createLoopComponent({
      name: "nodes",
      whenStarted: () => synced.promise,
      run: async (signal) => {
        story.push("nodes starts");
        await whenAborted(signal);
        story.push("nodes stops");
      },
    });
    const server = createServerComponent({
      name: "probes",
      start: () => {
        story.push("probes starts");
        return Promise.resolve({ [Symbol.asyncDispose]: async () => void story.push("probes stops") });
      },
    });
    const test = setUp({ always: [[server], [informer]], elected: [aComponent("writer", story)] });
    await test.clock.advance(60_000);
    expect(story).toEqual(["probes starts", "nodes starts"]);
    synced.resolve(true);
    await test.clock.advance(0);
    test.stop.abort();
    expect(await test.ended).toEqual({ reason: "stopped", stillRunning: [] });
    expect(story.slice(2)).toEqual(["writer starts", "writer stops", "nodes stops", "probes stops"]);
  });

  it("says of each component why it is not ready, until all are", async () => {
    const synced = Promise.withResolvers<boolean>();
    let problem: string | undefined = "nodes not listed yet";
    const informer = createLoopComponent({
      name: "nodes",
      whenStarted: () => synced.promise,
      run: whenAborted,
      problem: () => problem,
    });
    const test = setUp({
      always: [[aComponent("probes", [])], [informer]],
      elected: [aComponent("writer", [])],
    });
    await test.clock.advance(0);
    expect(test.ready()).toBe(
      "[+]ping ok\n[+]probes ok\n[-]nodes: nodes not listed yet\n[-]writer: it waits for others to start\nreadyz check failed\n",
    );
    problem = undefined;
    expect(test.ready()).toContain("[-]nodes: it is starting");
    synced.resolve(true);
    await test.clock.advance(0);
    expect(test.ready()).toContain("readyz check passed");
    test.stop.abort();
    await test.ended;
    expect(test.ready()).toContain("[-]nodes: it has ended");
  });

  it("I-2 warns of what a component that is not vital cannot do, and stays ready", async () => {
    const problems = { server: undefined as string | undefined, writer: "an object\nis refused" };
    const component = (name: "server" | "writer") =>
      createLoopComponent({ name, run: whenAborted, problem: () => problems[name] });
    const always = [[component("server"), component("writer")]];
    const test = setUp({ always, vital: ["server"] });
    await test.clock.advance(0);
    expect(test.ready()).toBe(
      "[+]ping ok\n[+]server ok\n[!]writer: an object is refused\nreadyz check passed\n",
    );
    expect(runOneCheck("writer", test.manager.readyChecks)?.ok).toBe(false);
    problems.server = "it does not listen";
    expect(test.ready()).toContain("[-]server: it does not listen\n");
    expect(test.ready()).toContain("readyz check failed");
    test.stop.abort();
    await test.ended;
    expect(test.ready()).toContain("[-]writer: it has ended");
  });

  it("is ready while standing by, runs the elected once it leads, and releases the lease after them", async () => {
    const story: string[] = [];
    expectTypeOf<LeaderElector>().toExtend<LeaderElection>();
    const election = new Election(story);
    const test = setUp({
      always: [[aComponent("nodes", story)]],
      elected: [aComponent("writer", story)],
      election,
    });
    await test.clock.advance(0);
    expect([story, test.ready().includes("readyz check passed")]).toEqual([["nodes starts"], true]);
    election.win();
    await test.clock.advance(0);
    expect(story).toEqual(["nodes starts", "writer starts"]);
    test.stop.abort();
    expect(await test.ended).toEqual({ reason: "stopped", stillRunning: [] });
    expect(story.slice(2)).toEqual(["writer stops", "lease released", "nodes stops"]);
  });

  it("stops the elected at once, without draining, when the lead is lost, and says so", async () => {
    const story: string[] = [];
    const election = new Election(story);
    const writer = aComponent("writer", story, { drain: async () => void story.push("drained") });
    const test = setUp({ always: [[aComponent("nodes", story)]], elected: [writer], election });
    election.win();
    await test.clock.advance(0);
    election.lose();
    const end = await test.ended;
    expect(end).toEqual({ reason: "lost leadership", stillRunning: [] });
    expect(describeRunEnd(end)).toBe("lost leadership");
    expect(story).toEqual(["nodes starts", "writer starts", "lead lost", "writer stops", "nodes stops"]);
  });

  it.each([
    ["its own", undefined],
    ["the one apart", "apart"],
  ])(
    "C21 starts what a lease leads with that lease, and ends when %s is lost, which it names",
    async (_which, lost) => {
      const story: string[] = [];
      const [own, apart] = [new Election(story), new Election(story)];
      const test = setUp({
        always: [[aComponent("nodes", story)]],
        elected: [aComponent("writer", story)],
        election: own,
        apart: [{ lease: "apart", election: apart, elected: [aComponent("fleet", story)] }],
      });
      apart.win();
      await test.clock.advance(0);
      expect(story).toEqual(["nodes starts", "fleet starts"]);
      // What stands by for the other lease is ready.
      expect(test.ready()).toContain(
        "[+]leader-election ok\n[+]fleet ok\n[+]leader-election-apart ok\nreadyz check passed",
      );
      own.win();
      await test.clock.advance(0);
      expect(story).toEqual(["nodes starts", "fleet starts", "writer starts"]);
      (lost === undefined ? own : apart).lose();
      const end = await test.ended;
      expect(end).toEqual({ reason: "lost leadership", stillRunning: [], ...(lost && { lease: lost }) });
      expect(story.slice(3)).toHaveLength(5);
      expect(story[3]).toBe("lead lost");
      expect(story.slice(4, 6).toSorted()).toEqual(["fleet stops", "writer stops"]);
      expect(story.slice(6)).toEqual(["lease released", "nodes stops"]);
    },
  );

  it("never starts the elected of a replica that wins the lead while it stops", async () => {
    const story: string[] = [];
    const election = new Election(story);
    const test = setUp({ always: [], elected: [aComponent("writer", story)], election });
    await test.clock.advance(0);
    test.stop.abort();
    election.win();
    expect(await test.ended).toEqual({ reason: "stopped", stillRunning: [] });
    expect(story).toEqual(["lease released"]);
  });

  it.each<[string, Partial<Component> & { endsAfter?: Promise<void> }, string]>([
    ["cannot start", { start: () => Promise.reject(new Error("address in use")) }, "address in use"],
    ["throws on start", { start: () => fail("no such file") }, "no such file"],
    ["ends by itself", { endsAfter: Promise.resolve() }, "it ended unexpectedly"],
    ["fails later", { start: async () => ({ ended: Promise.reject(new Error("lost")) }) }, "lost"],
  ])("ends with the component named when one %s, and stops the others", async (_how, behaviour, text) => {
    const story: string[] = [];
    const always = [[aComponent("good", story)], [aComponent("bad", [], behaviour)]];
    const test = setUp({ always, elected: [aComponent("writer", [])] });
    const end = await test.ended;
    expect([describeRunEnd(end), story]).toEqual([`bad failed: ${text}`, ["good starts", "good stops"]]);
    expect(end.reason === "failed" && end.component).toBe("bad");
  });

  it("ends with the election as the culprit when it cannot work at all", async () => {
    const election: LeaderElection = { run: () => Promise.reject(new Error("no permission")) };
    const test = setUp({ always: [], election });
    expect(describeRunEnd(await test.ended)).toBe("leader-election failed: no permission");
  });

  it("keeps the first cause, and a failure while stopping changes nothing", async () => {
    const story: string[] = [];
    const late: Component = {
      name: "late",
      start: (signal) =>
        Promise.resolve({ ended: whenAborted(signal).then(() => Promise.reject(new Error("too late"))) }),
    };
    const test = setUp({ always: [[aComponent("good", story)], [late]] });
    await test.clock.advance(0);
    test.stop.abort();
    expect(await test.ended).toEqual({ reason: "stopped", stillRunning: [] });
  });

  it("ends at once when the signal had aborted before", async () => {
    const story: string[] = [];
    const manager = new Manager({ clock: createVirtualClock(), log, always: [[aComponent("nodes", story)]] });
    expect(await manager.run(AbortSignal.abort())).toEqual({ reason: "stopped", stillRunning: [] });
    expect(story).toEqual([]);
    await expect(manager.run(AbortSignal.abort())).rejects.toThrow("run once");
  });

  it("refuses two components of one name, and limits that contradict each other", () => {
    const options = { clock: createVirtualClock(), log };
    const twice = [[aComponent("nodes", [])], [aComponent("nodes", [])]];
    expect(() => new Manager({ ...options, always: twice })).toThrow(RangeError);
    expect(() => new Manager({ ...options, always: [], drainLimitMs: 5_000 })).toThrow(RangeError);
  });
});

describe("Manager, stopping", () => {
  it("lets reconciles in flight finish", async () => {
    const written = Promise.withResolvers<undefined>();
    const seen: boolean[] = [];
    const clock = createVirtualClock();
    const writer = createController<string>({
      name: "writer",
      clock,
      log,
      reconcile: async (_key, { signal }) => {
        await written.promise;
        seen.push(signal.aborted);
        return undefined;
      },
    });
    const test = setUp({ clock, always: [], elected: [writer] });
    writer.enqueue("a");
    await clock.advance(0);
    clock.schedule(700, () => written.resolve(undefined));
    const tookMs = await stopAndMeasure(clock, () => test.stop.abort(), test.ended);
    expect([seen, tookMs <= 710]).toEqual([[false], true]);
  });

  it("takes less than two seconds with a stuck reconcile, names it, and leaves the others time to stop", async () => {
    const story: string[] = [];
    const stuck = Promise.withResolvers<undefined>();
    const clock = createVirtualClock();
    const reconcile = () => stuck.promise;
    const writer = createController<string>({ name: "writer", clock, log, reconcile });
    const election = new Election(story);
    const slowToClose: Component = {
      name: "probes",
      start: (signal) =>
        Promise.resolve({
          ended: whenAborted(signal)
            .then(() => sleep(clock, 250))
            .then(() => undefined),
        }),
    };
    const test = setUp({
      clock,
      always: [[slowToClose], [aComponent("nodes", story)]],
      elected: [writer],
      election,
    });
    election.win();
    await clock.advance(0);
    writer.enqueue("a");
    await clock.advance(0);
    const tookMs = await stopAndMeasure(clock, () => test.stop.abort(), test.ended);
    expect(tookMs).toBeLessThan(2_000);
    const end = await test.ended;
    expect(end).toEqual({ reason: "stopped", stillRunning: ["writer", "leader-election"] });
    expect(story).toEqual(["nodes starts", "nodes stops"]);
    stuck.resolve(undefined);
    await clock.advance(0);
    expect(story.at(-1)).toBe("lease released");
  });

  it("takes less than two seconds whatever is stuck, and names exactly that", async () => {
    const kinds = fc.constantFrom("fine", "stuck", "stuck drain", "never starts");
    const stages = fc.array(fc.array(kinds, { maxLength: 3 }), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(stages, fc.array(kinds, { maxLength: 3 }), async (always, elected) => {
        const never = new Promise<never>(() => undefined);
        const started: string[] = [];
        const make = (kind: string, index: number, stage: string): Component => ({
          name: `${stage}-${index}-${kind}`,
          start: (signal) => {
            started.push(`${stage}-${index}-${kind}`);
            if (kind === "never starts") return never;
            const ended = kind === "stuck" ? never : whenAborted(signal);
            return Promise.resolve({
              ended,
              drain: () => (kind === "stuck drain" ? never : Promise.resolve()),
            });
          },
        });
        const test = setUp({
          always: always.map((stage, at) => stage.map((kind, index) => make(kind, index, `s${at}`))),
          elected: elected.map((kind, index) => make(kind, index, "elected")),
        });
        await test.clock.advance(10);
        const tookMs = await stopAndMeasure(test.clock, () => test.stop.abort(), test.ended);
        expect(tookMs).toBeLessThan(2_000);
        const { stillRunning } = await test.ended;
        const expected = started.filter((name) => /-(stuck|never starts)$/.test(name));
        expect(stillRunning.toSorted()).toEqual(expected.toSorted());
      }),
      { numRuns: 60 },
    );
  });
});
