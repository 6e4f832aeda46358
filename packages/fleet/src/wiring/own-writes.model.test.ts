/** Random histories of two objects: what Berth, and others, write, and an informer that is behind. */
import { OwnWrites, UNSEEN_MS } from "@berth/host";
import { configMaps, type KubeObject, type Projection } from "@berth/kube";
import { type Change, createVirtualClock } from "@berth/runtime";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../../runtime/src/testing/property.ts";
import { clusterOfModel, LaggingCache } from "../testing/lagging-views.ts";
import { ObjectServer } from "../testing/object-server.ts";

const NAMES = ["a", "b"] as const;
const INDEX = { owner: ({ metadata }: KubeObject) => [metadata?.labels?.["owner"] ?? ""] };

/** An answer to Berth, and after which state of the server it was given. */
type Answer = { readonly state: number; readonly name: string; readonly tell: () => void };

class World {
  readonly clock = createVirtualClock();
  readonly server = new ObjectServer(() => this.clock.now());
  readonly cache: LaggingCache;
  readonly own: OwnWrites<KubeObject>;
  /** Names of the objects that were never shown. */
  readonly lost: string[] = [];
  readonly #answers: Answer[] = [];
  /** By name, the newest state of the server that Berth knows. */
  readonly #known = new Map<string, number>();
  #hasPassed = false;

  constructor(project: Projection<KubeObject> = (it) => it) {
    const informer = new LaggingCache(this.server, configMaps, { indexes: INDEX });
    this.cache = informer;
    // The cache of the model has all that is used of an informer, for objects of any kind.
    this.own = new OwnWrites({
      shown: informer,
      cluster: clusterOfModel,
      indexes: () => INDEX,
      project,
      clock: this.clock,
      onLost: ({ metadata }) => void this.lost.push(metadata?.name ?? ""),
    });
    informer.subscribe({ onChange: (change) => this.own.see(change as Change<KubeObject>) });
  }

  create(name: string, finalizers: string[], isOurs: boolean): void {
    if (this.#now.has(name)) return;
    const made = this.server.create(configMaps, { metadata: { name, finalizers, labels: { owner: "x" } } });
    if (isOurs) this.#answer(name, () => this.own.note(made));
  }

  label(name: string, owner: string, isOurs: boolean): void {
    if (!this.#now.has(name)) return;
    const body = { metadata: { labels: { owner } } };
    const stored = this.server.patch(configMaps, { name }, { type: "merge", body });
    if (isOurs) this.#answer(name, () => this.own.note(stored));
  }

  delete(name: string, isOurs: boolean): void {
    if (!this.#now.has(name)) return;
    // Berth deletes only what it knows.
    const seen = this.own.get({ cluster: clusterOfModel, namespace: "default", name });
    if (isOurs && seen?.metadata?.uid !== this.#now.get(name)?.metadata?.uid) return;
    this.server.delete(configMaps, { name });
    if (isOurs) this.#answer(name, () => this.own.noteDeleted(seen ?? {}));
  }

  end(name: string): void {
    if (this.#now.get(name)?.metadata?.deletionTimestamp === undefined) return;
    this.server.patch(configMaps, { name }, { type: "merge", body: { metadata: { finalizers: [] } } });
  }

  /** Answers come in any order. */
  answer(at: number): void {
    const [one] = this.#answers.splice(at % Math.max(this.#answers.length, 1), 1);
    if (one === undefined) return;
    one.tell();
    this.#known.set(one.name, Math.max(this.#known.get(one.name) ?? 0, one.state));
  }

  /** A while, in which no request stays without an answer. */
  async pass(): Promise<void> {
    while (this.#answers.length > 0) this.answer(0);
    await this.clock.advance(UNSEEN_MS);
    this.#hasPassed = true;
  }

  /** What is shown of each object, and what should be. */
  *compare(): Generator<readonly [shown: unknown, wanted: unknown]> {
    for (const name of NAMES) {
      const state = Math.max(this.#known.get(name) ?? 0, this.cache.seen);
      const wanted = this.server.statesOf(configMaps)[state]?.get(name);
      const shown = this.own.get({ cluster: clusterOfModel, namespace: "default", name });
      // Berth does not know whether what it deleted had finalizers.
      const isGone = wanted === undefined && (shown === undefined || isGoing(shown));
      const isForgotten = this.#hasPassed && shown === undefined && this.cache.get({ name }) === undefined;
      if (!isGone && !isForgotten) yield [summary(shown), summary(wanted)];
      const all = shown === undefined ? [] : [shown];
      yield [[...this.own.list()].filter(isCalled(name)), all];
      for (const owner of ["x", "y"])
        yield [
          this.own.byIndex("owner", owner).filter(isCalled(name)),
          all.filter((it) => INDEX.owner(it).includes(owner)),
        ];
    }
  }

  get #now(): ReadonlyMap<string, KubeObject> {
    return this.server.statesOf(configMaps).at(-1) ?? new Map();
  }

  #answer(name: string, tell: () => void): void {
    this.#answers.push({ name, tell, state: this.server.statesOf(configMaps).length - 1 });
  }
}

const isCalled =
  (name: string) =>
  ({ metadata }: KubeObject): boolean =>
    metadata?.name === name;

function isGoing({ metadata }: KubeObject): boolean {
  return metadata?.deletionTimestamp !== undefined;
}

function summary(object: KubeObject | undefined) {
  const { uid, labels } = object?.metadata ?? {};
  // The answer to a deletion does not tell what else has changed.
  return object !== undefined && isGoing(object) ? { uid, isGoing: true } : { uid, labels };
}

const name = fc.constantFrom(...NAMES);
const step = fc.oneof(
  steps(3, ["create", "delete", "end"], { name, isOurs: fc.boolean(), isHeld: fc.boolean() }),
  steps(4, ["label", "label"], { name, isOurs: fc.boolean(), owner: fc.constantFrom("x", "y") }),
  steps(4, ["answer", "see"], { count: fc.nat(3) }),
  steps(1, ["pass"], {}),
);

describe("any history of two objects", () => {
  const run = seededRun(1500, process.env);
  it(
    `is never shown older than what the informer shows, or what Berth wrote (${run.name})`,
    run.options,
    async () => {
      const property = fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (history) => {
        const world = new World();
        for (const one of history) {
          if ("owner" in one) world.label(one.name, one.owner, one.isOurs);
          else if ("count" in one) {
            if (one.do === "answer") world.answer(one.count);
            // A watch leaves no state out.
            else for (let states = 0; states < one.count; states += 1) world.cache.see(1);
          } else if (one.do === "pass") await world.pass();
          else if (one.do === "create") world.create(one.name, one.isHeld ? ["a/b"] : [], one.isOurs);
          else if (one.do === "delete") world.delete(one.name, one.isOurs);
          else world.end(one.name);
          for (const [shown, wanted] of world.compare()) expect(shown).toEqual(wanted);
        }
      });
      await fc.assert(property, run.parameters);
    },
  );
});

describe("a write that the informer does not show", () => {
  const key = { cluster: clusterOfModel, namespace: "default", name: "a" };

  it("is projected as the informer would", () => {
    const world = new World(({ metadata }) => ({ metadata: { ...metadata, labels: { owner: "y" } } }));
    world.create("a", [], true);
    world.answer(0);
    expect(world.own.get(key)?.metadata?.labels).toEqual({ owner: "y" });
    expect(world.own.byIndex("owner", "y")).toHaveLength(1);
  });

  it("is unseen, and forgotten after 30 s: it has been undone", async () => {
    const world = new World();
    world.create("a", [], true);
    world.answer(0);
    const made = world.own.get(key);
    await world.clock.advance(UNSEEN_MS - 1);
    expect([world.own.get(key), world.lost]).toEqual([made, []]);
    await world.clock.advance(1);
    expect([world.own.get(key), world.lost]).toEqual([undefined, ["a"]]);
  });

  it("tells of no loss once the informer has shown it", async () => {
    const world = new World();
    world.create("a", [], true);
    world.answer(0);
    world.cache.see();
    await world.clock.advance(UNSEEN_MS);
    expect(world.lost).toEqual([]);
  });

  it("is one of at most 10,000: the oldest is forgotten first", () => {
    const world = new World();
    for (let at = 0; at <= 10_000; at += 1)
      world.own.note({
        metadata: { namespace: "default", name: `n-${at}`, uid: `u-${at}`, resourceVersion: "1" },
      });
    expect([...world.own.list()]).toHaveLength(10_000);
    expect(world.own.get({ ...key, name: "n-0" })).toBeUndefined();
  });

  it("of a version that cannot be compared is not kept: the informer is right", () => {
    const world = new World();
    world.create("a", [], false);
    world.cache.see();
    const shown = world.own.get(key);
    world.own.note({
      ...shown,
      metadata: { ...shown?.metadata, resourceVersion: "odd", labels: { owner: "z" } },
    });
    expect(world.own.get(key)).toBe(shown);
  });
});
