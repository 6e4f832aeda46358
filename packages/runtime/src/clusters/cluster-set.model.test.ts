/** Random histories of clusters that join, hang, return, are restored, replaced and leave, on a virtual clock. */
import { isDeepStrictEqual } from "node:util";
import { pathOf } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clusterName } from "../key.ts";
import type { ClusterWorld, Mood } from "../testing/cluster-world.ts";
import { type Fleet, keyIn, startFleet } from "../testing/fleet-setup.ts";
import { randomFrom, seededRun, steps } from "../testing/property.ts";

const CLUSTERS = ["dfw", "ord", "sea"];
const NAMES = ["a", "b", "c"];
const cluster = fc.constantFrom(...CLUSTERS);
const step = fc.oneof(
  steps(4, ["join", "join", "leave"], { cluster }),
  steps(8, ["write", "write", "remove", "work"], { cluster, name: fc.constantFrom(...NAMES) }),
  steps(5, ["become"], {
    cluster,
    mood: fc.constantFrom<Mood>("up", "up", "refused", "silent", "unauthorized", "forbidden", "busy"),
  }),
  steps(2, ["restore", "replace", "return"], { cluster }),
  steps(1, ["expire"], { cluster }),
  steps(8, ["wait"], { ms: fc.constantFrom(1, 20, 300, 2_000, 10_000, 60_000) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const setting = fc.record({ seed: fc.nat(), refusesStreams: fc.boolean() });

/** Longer than it takes to notice anything: a probe, its timeout, and the time without an answer. */
const NOTICED_MS = 15_000;

class History {
  readonly violations: string[] = [];
  readonly #fleet: Fleet;
  readonly #joined = new Set<string>();
  /** Since when the mood and the identity of each server are as they are. */
  readonly #since = new Map<string, number>();
  /** All states that the right cluster had, as texts. */
  readonly #truths = new Map(CLUSTERS.map((name) => [name, new Set(["[]"])]));
  /** Restored or emptied, and maybe not read since: writes would hide that from every reader of versions. */
  readonly #restored = new Set<string>();
  /** Requests of a cluster that has left. */
  readonly #left = new Map<string, number>();

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  async run(history: readonly Step[]): Promise<void> {
    for (const at of history) {
      await this.#take(at);
      this.#look(JSON.stringify(at));
    }
  }

  async finish(): Promise<void> {
    const { clock, set, view, controller, shown } = this.#fleet;
    for (const name of CLUSTERS) {
      const world = this.#fleet.world(name);
      if (!world.isRight) world.replace();
      world.become("up");
    }
    await clock.advance(2 * NOTICED_MS);
    for (const name of CLUSTERS) {
      const world = this.#fleet.world(name);
      world.write("z");
      this.#note(name);
      world.gotten.length = 0;
      controller.enqueue(keyIn(name, "z"));
    }
    await clock.advance(60_000);
    this.#look("at the end");
    for (const name of this.#joined) {
      const world = this.#fleet.world(name);
      const state = view.state(clusterName(name));
      if (set.get(clusterName(name))?.reach.is !== "yes")
        this.violations.push(`${name} is not reached again`);
      if (state !== "synced") this.violations.push(`${name} stays ${state}`);
      if (!isDeepStrictEqual(shown(name), namesIn(world)))
        this.violations.push(`${name} shows ${shown(name).join()} of ${namesIn(world).join()}`);
      if (!world.gotten.includes("z")) this.violations.push(`a key of ${name} was not worked on`);
    }
    await this.#fleet.stop();
    if (clock.nextInMs !== undefined) this.violations.push("a timer is left");
    for (const name of CLUSTERS) {
      const { inFlight, log } = this.#fleet.world(name);
      if (inFlight + log.openStreams > 0) this.violations.push(`a request to ${name} is left`);
    }
  }

  async #take(at: Step): Promise<void> {
    const { clock, world, controller } = this.#fleet;
    if (at.do === "wait") return await clock.advance(at.ms);
    const { cluster: name } = at;
    const server = world(name);
    switch (at.do) {
      case "join":
        this.#left.delete(name);
        this.#joined.add(name);
        this.#since.set(name, clock.monotonic());
        this.#fleet.join(name);
        return;
      case "leave":
        this.#joined.delete(name);
        await this.#fleet.leave(name);
        this.#left.set(name, server.requests);
        return;
      case "work":
        return controller.enqueue(keyIn(name, at.name));
      case "write":
      case "remove":
        if (this.#restored.has(name) && !this.#isSettled(name)) return;
        this.#restored.delete(name);
        server[at.do](at.name);
        return this.#note(name);
      case "expire":
        return server.log.forget();
      case "become":
        if (server.mood !== at.mood) this.#since.set(name, clock.monotonic());
        return server.become(at.mood);
      case "restore":
        this.#since.set(name, clock.monotonic());
        this.#restored.add(name);
        server.restore();
        return this.#note(name);
      case "replace":
      case "return":
        this.#since.set(name, clock.monotonic());
        this.#restored.add(name);
        server.replace(at.do === "replace" ? "another" : undefined);
        return this.#note(name);
    }
  }

  #isSettled(name: string): boolean {
    const { mood, isRight } = this.#fleet.world(name);
    const sinceMs = this.#fleet.clock.monotonic() - (this.#since.get(name) ?? 0);
    return !isRight || !this.#joined.has(name) || (mood === "up" && sinceMs >= NOTICED_MS);
  }

  #note(name: string): void {
    const server = this.#fleet.world(name);
    if (!server.isRight) return;
    for (const state of server.log.states)
      this.#truths.get(name)?.add(JSON.stringify([...state.keys()].toSorted()));
  }

  #look(when: string): void {
    const { clock, set, shown, world, view } = this.#fleet;
    for (const name of NAMES) {
      const found = view.having(pathOf({ name })).toSorted();
      if (found.join() !== CLUSTERS.filter((it) => shown(it).includes(name)).join())
        this.violations.push(`${when}: ${name} is found in ${found.join()}`);
    }
    for (const name of CLUSTERS) {
      const server = world(name);
      const bad = (text: string): void => void this.violations.push(`${when}: ${name} ${text}`);
      if (!this.#truths.get(name)?.has(JSON.stringify(shown(name)))) bad(`shows ${shown(name).join()}`);
      // Four workers, a probe, and a watch with its proof.
      if (server.inFlight > 6) bad(`has ${server.inFlight} requests in flight`);
      const left = this.#left.get(name);
      if (left !== undefined && server.requests > left) bad("was asked after it had left");
      const member = set.get(clusterName(name));
      if ((member !== undefined || view.state(clusterName(name)) !== "absent") && !this.#joined.has(name))
        bad("is there and has not joined");
      if (member === undefined || clock.monotonic() - (this.#since.get(name) ?? 0) < NOTICED_MS) continue;
      const expected = causeOf(server);
      const { reach } = member;
      const found = reach.is === "yes" ? "yes" : reach.cause;
      if (expected !== undefined && found !== expected) bad(`is ${found} and should be ${expected}`);
    }
  }
}

/** `undefined`: a server that only asks to slow down is what it was before. */
function causeOf({ mood, isRight }: ClusterWorld): string | undefined {
  if (mood === "up") return isRight ? "yes" : "WrongIdentity";
  return CAUSES[mood];
}

const CAUSES: Readonly<Record<Exclude<Mood, "up">, string | undefined>> = {
  busy: undefined,
  refused: "Refused",
  silent: "Silent",
  unauthorized: "Unauthorized",
  forbidden: "Unauthorized",
};

function namesIn({ log }: ClusterWorld): readonly string[] {
  return [...(log.states.at(-1)?.keys() ?? [])].toSorted();
}

describe("a set of clusters", () => {
  const run = seededRun(60, process.env);
  it(
    `shows only states of the right clusters, reports what they are, and leaves nothing behind (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 60, size: "max" }),
          setting,
          async (history, { seed, ...servers }) => {
            await using fleet = await startFleet({ random: randomFrom(seed), ...servers });
            const model = new History(fleet);
            await model.run(history);
            await model.finish();
            expect(model.violations).toEqual([]);
          },
        ),
        run.parameters,
      );
    },
  );
});
