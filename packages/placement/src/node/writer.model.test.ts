/**
 * Random histories of nodes with several processes of Berth, foreign writers and a network that loses, delays and
 * refuses, on a virtual clock: what no write may ever do, and what is true in the end.
 */
import type { ApiFailure } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { type ModelRule, type Weather } from "./testing/model-berth.ts";
import {
  CALM,
  GATE,
  IDS,
  type Installation,
  NAMES,
  type Setting,
  type Step,
  violationsOf,
} from "./testing/model-history.ts";

const id = fc.constantFrom(...IDS);
const name = fc.constantFrom(...NAMES);
const who = fc.constantFrom<Installation>("berth", "berth", "other");
const value = fc.constantFrom("1", "2");
const rule = fc
  .record({
    id: fc.constantFrom(...IDS, ...IDS, GATE),
    value,
    needs: fc.constantFrom(undefined, "in", "a"),
    foreign: fc.constantFrom("overwrite" as const, "leave" as const),
  })
  .map(({ id, value, needs, foreign }): ModelRule => {
    // No rule on the label that it sets itself.
    const input = id === "label/a" && needs === "a" ? "in" : needs;
    return { id, value: id === "unschedulable" ? "true" : value, needs: input, foreign };
  });
const rules = fc.uniqueArray(rule, { maxLength: 5, selector: (it) => it.id });
const config = fc.record({ one: rules, two: rules });
const ms = fc.constantFrom(0, 5, 40, 300, 1_500, 20_000, 70_000);
const readAfterMs = fc.array(fc.constantFrom(0, 0, 700, 5_000), { minLength: 2, maxLength: 2 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("wait" as const), ms }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("configure" as const), who, config, ms }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("restart" as const, "hand over" as const),
      who,
      ms,
      readAfterMs,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("lag" as const, "list" as const, "recheck" as const),
      who,
      ms,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom("remove" as const, "register" as const, "recreate" as const, "recreate" as const),
      name,
      standing: fc.constantFrom(undefined, "label/a" as const, "label/b" as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("edit" as const), name, foreign: value, input: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("meddle" as const),
      name,
      id: fc.oneof(id, fc.constant(GATE)),
      value: fc.constantFrom("1", "3", undefined),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("fight" as const), name, id }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("tamper" as const),
      name,
      record: fc.constantFrom(null, null, "{", '{"v":2,"by":"berth","marks":{}}'),
    }),
  },
);
const weather: fc.Arbitrary<Weather> = fc.record(
  {
    thereMs: fc.constantFrom(1, 1, 30, 900, 12_000),
    backMs: fc.constantFrom(1, 30, 900),
    fault: fc.constantFrom("request lost", "answer lost", "conflict", "throttled", "broken"),
  },
  { requiredKeys: ["thereMs", "backMs"] },
);
const setting: fc.Arbitrary<Setting> = fc.record({
  configs: fc.record({ berth: config, other: config }),
  weather: fc.array(fc.oneof(fc.constant(CALM), fc.constant(CALM), weather), { minLength: 1, maxLength: 12 }),
  refused: fc.option(
    fc.record({
      id,
      value: fc.constantFrom("1", "2", "true"),
      failure: fc.constantFrom<ApiFailure>(
        { kind: "invalid", causes: [] },
        { kind: "forbidden", ofObject: true },
      ),
      forGood: fc.boolean(),
    }),
    { nil: undefined },
  ),
  /** The nodes that are there at the start carry this already. */
  standing: fc.option(fc.tuple(fc.constantFrom("a", "b", "gate"), value), { nil: undefined }),
});
describe("the node writer in any history", () => {
  const run = seededRun(250, process.env);
  it(
    `touches only what is ours, forgets nothing, and comes to rest with what is wanted (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 25 }), setting, async (steps, setting) => {
          expect(await violationsOf(steps, setting)).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
