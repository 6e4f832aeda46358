/** Random histories of a store, compared after each step with a plain map and with a follower of its changes. */
import { isDeepStrictEqual } from "node:util";
import { type KubeObject, pathOf } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Change } from "./lister.ts";
import { ObjectStore } from "./object-store.ts";
import { ChangeHistory } from "./testing/change-history.ts";
import { seededRun } from "./testing/property.ts";

interface Thing extends KubeObject {
  readonly zones: readonly string[];
}

const NAMES = ["a", "b", "c", "d"];
const ZONES = ["x", "y", "z"];

interface SingleStep {
  readonly do: "upsert" | "again" | "remove" | "recreate" | "remove stale";
  readonly name: string;
  readonly zones: readonly string[];
}

/** A snapshot shows what happened while nobody watched. */
type Step = SingleStep | { readonly do: "snapshot"; readonly missed: readonly SingleStep[] };

const single: fc.Arbitrary<SingleStep> = fc.record({
  do: fc.constantFrom("upsert", "again", "remove", "recreate", "remove stale"),
  name: fc.constantFrom(...NAMES),
  zones: fc.subarray(ZONES),
});
const snapshot = fc.record({
  do: fc.constant("snapshot" as const),
  missed: fc.array(single, { maxLength: 5 }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: single },
  { weight: 1, arbitrary: snapshot },
);

/** The truth: what exists, by key, and the numbers given out so far. */
class World {
  readonly objects = new Map<string, Thing>();
  #numbers = 0;

  /** Carries the step out. Gives what a watch would say of it; nothing when nothing happened. */
  apply({ do: what, name, zones }: SingleStep): { gone: boolean; object: Thing } | undefined {
    const present = this.objects.get(`/${name}`);
    this.#numbers += 1;
    const resourceVersion = `${this.#numbers}`;
    const fresh: Thing = { metadata: { name, uid: `uid-${resourceVersion}`, resourceVersion }, zones };
    if (what === "recreate" || (what === "upsert" && present === undefined)) {
      this.objects.set(`/${name}`, fresh);
      return { gone: false, object: fresh };
    }
    if (present === undefined) return undefined;
    if (what === "again") return { gone: false, object: structuredClone(present) };
    if (what === "remove stale") return { gone: true, object: fresh };
    const object: Thing = { metadata: { ...present.metadata, resourceVersion }, zones };
    if (what === "upsert") this.objects.set(`/${name}`, object);
    else this.objects.delete(`/${name}`);
    return { gone: what === "remove", object };
  }
}

/** Runs the steps. Gives all that was wrong, each with the step it was seen after. */
function violationsOf(steps: readonly Step[]): string[] {
  const world = new World();
  const store = new ObjectStore<Thing>({ zone: (thing) => thing.zones });
  const history = new ChangeHistory<Thing>();
  const tell = (changes: Iterable<Change<Thing>>): void => {
    for (const change of changes) history.onChange(change);
  };
  const found: string[] = [];
  for (const [index, one] of steps.entries()) {
    const held = [...store.values()];
    if (one.do === "snapshot") {
      for (const missed of one.missed) world.apply(missed);
      const copies = [...world.objects.values()].map((thing) => structuredClone(thing));
      const begun = store.beginSnapshot();
      for (const thing of copies) begun.put(thing);
      tell(store.replace(begun));
    } else {
      const done = world.apply(one);
      if (done !== undefined) tell(done.gone ? store.remove(done.object) : store.upsert(done.object));
    }
    const wrong = [...differencesOf(store, world, history), ...copiesOf(held, store)];
    found.push(...wrong.map((what) => `after step ${index}: ${what}`));
  }
  return [...found, ...history.violations];
}

function* differencesOf(
  store: ObjectStore<Thing>,
  world: World,
  history: ChangeHistory<Thing>,
): Generator<string> {
  const present = new Map([...store.values()].map((thing) => [pathOf(thing.metadata), thing]));
  if (!isDeepStrictEqual(present, world.objects)) yield "the store does not hold what exists";
  if (store.size !== world.objects.size) yield "the size is not the number of objects";
  if (!isDeepStrictEqual(history.objects, world.objects)) yield "the changes do not give what exists";
  for (const [key, thing] of present) if (store.get(key) !== thing) yield `${key} is not found`;
  for (const zone of ZONES) {
    const wanted = [...world.objects.values()].filter((thing) => thing.zones.includes(zone));
    if (!isDeepStrictEqual(namesOf(store.byIndex("zone", zone)), namesOf(wanted)))
      yield `index ${zone} is wrong`;
  }
}

/** A version that was held before must still be the same object: a second copy would cost its memory twice. */
function* copiesOf(held: readonly Thing[], store: ObjectStore<Thing>): Generator<string> {
  for (const before of held) {
    const after = store.get(pathOf(before.metadata));
    if (after?.metadata?.resourceVersion === before.metadata?.resourceVersion && after !== before)
      yield `${before.metadata?.name} was copied`;
  }
}

function namesOf(things: readonly Thing[]): string[] {
  return things.map((thing) => thing.metadata?.name ?? "").sort();
}

describe("any history of a store", () => {
  const run = seededRun(3000, process.env);
  it(
    `leaves objects and indexes as the last state, and tells each object's life once and in order (${run.name})`,
    run.options,
    () => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
          expect(violationsOf(steps)).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
