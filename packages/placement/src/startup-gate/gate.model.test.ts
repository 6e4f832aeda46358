/** Random lives of two nodes with gates: what no patch may ever do, and what is true in the end. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { model, step, violationsOf } from "./testing/gate-life.ts";

describe("the lives of nodes with gates", () => {
  const run = seededRun(150, process.env);
  it(`let nobody go too early and everybody in the end (${run.name})`, run.options, () => {
    fc.assert(
      fc.property(fc.record({ g: model, h: model }), fc.array(step, { maxLength: 40 }), (models, steps) => {
        expect(violationsOf(models, steps)).toEqual([]);
      }),
      run.parameters,
    );
  });
});
