/** Random histories of one deployment: what Berth may never do to its Instances, and what is true in the end. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../../runtime/src/testing/property.ts";
import type { Instance } from "../api/workload.ts";
import { ControlLoop, isReady, ordinal } from "./testing/control-loop.ts";
import { aTemplate } from "./testing/fixtures.ts";

const IMAGES = ["app:1", "app:2", "bad:1"] as const;
const min = fc.constantFrom(-1, 0, 1, 2, 3, 5);
const image = fc.constantFrom(...IMAGES);
const start = fc.constantFrom(0, 1000);
const at = fc.constantFrom(0, 1, 2, 3, 4, 1000, 1001, 1002);
const step = fc.oneof(
  steps(4, ["pass"], { states: fc.constantFrom(0, 0, 1, 3) }),
  steps(6, ["round"], { rounds: fc.integer({ min: 1, max: 4 }) }),
  steps(3, ["ready", "unready", "end", "delete"], { at }),
  steps(5, ["scale", "roll", "roll", "roll", "start", "quota"], { min, image, start }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function isGood({ spec }: Instance): boolean {
  return spec?.runtime.sandbox?.containers.every(({ image: used }) => used !== "bad:1") ?? false;
}

function take(loop: ControlLoop, one: Step): void {
  if ("states" in one) {
    loop.see(one.states);
    loop.pass();
  } else if ("rounds" in one) {
    for (let at = 0; at < one.rounds; at += 1) loop.round(isGood);
  } else if ("at" in one) {
    const instance = loop.instances.find((it) => ordinal(it) === one.at);
    if (one.do === "end") loop.end(one.at);
    else if (one.do === "delete") loop.mark(one.at);
    else if (instance !== undefined && (one.do === "unready" || isGood(instance)))
      loop.report(one.at, one.do === "ready");
  } else {
    if (one.do === "scale") loop.change({ min: one.min });
    else if (one.do === "roll") loop.change({ template: aTemplate(one.image) });
    else if (one.do === "start") loop.change({ start: one.start });
    else loop.isQuotaReachable = !loop.isQuotaReachable;
    // The change starts a decision, whatever the cache shows of the Instances.
    loop.pass();
  }
}

describe("any history of one deployment", () => {
  const run = seededRun(1000, process.env);
  it(
    `takes down one Ready Instance at a time, the highest surplus first, and ends as it should (${run.name})`,
    run.options,
    () => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 80 }), min, start, (history, last, from) => {
          const loop = new ControlLoop({ min: 3 });
          loop.settle(isGood);
          for (const one of history) take(loop, one);
          loop.isQuotaReachable = true;
          loop.change({ min: last, start: from, template: aTemplate("app:3") });
          loop.settle(isGood);
          expect(loop.violations).toEqual([]);
          const wanted = Array.from({ length: Math.max(last, 0) }, (_, i) => from + i);
          expect(loop.instances.map(ordinal)).toEqual(wanted);
          expect(loop.instances.filter((it) => !isReady(it))).toEqual([]);
          expect(loop.deployment.status).toMatchObject({
            replicas: wanted.length,
            readyReplicas: wanted.length,
            updatedReplicas: wanted.length,
            observedGeneration: loop.deployment.metadata?.generation,
          });
          const { findings, ...rest } = loop.pass();
          expect(rest).toEqual({ actions: [] });
          expect(findings).toHaveLength(last < 0 ? 1 : 0);
        }),
        run.parameters,
      );
    },
  );
});
