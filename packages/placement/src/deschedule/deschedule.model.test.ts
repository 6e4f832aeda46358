/**
 * Random histories of a small cluster under a policy that is edited, beside one in dry run: what no eviction may ever do,
 * and what is true in the end.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../../../runtime/src/testing/property.ts";
import { guarded, Life, NODES, narrowed, OWNERS, open } from "./testing/life.ts";

const node = fc.constantFrom(...NODES);
const owner = fc.constantFrom(...Object.keys(OWNERS));
const pod = fc.nat(8);
const step = fc.oneof(
  steps(6, ["pass"], { ms: fc.constantFrom(1_000, 10_000, 40_000, 61_000, 61_000, 301_000, 601_000) }),
  steps(3, ["lose", "lose", "gain"], { node }),
  steps(4, ["ready", "ready", "unready", "end", "end"], { pod }),
  steps(1, ["refuse", "silent", "evict", "evict"], { owner }),
  steps(2, ["settle", "settle", "settle", "restart", "narrow", "widen"], {}),
);
const history = fc.array(step, { maxLength: 60 });
/** In the end; two nodes have room for all pods. */
const labels = fc.subarray([...NODES], { minLength: 2 });
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function take(life: Life, step: Step): void {
  if (step.do === "pass") return life.pass(step.ms);
  if (step.do === "narrow" || step.do === "widen") {
    life.setPolicy(step.do === "narrow" ? narrowed : guarded);
    // The pass may come before the pods are judged again.
    return life.pass(0, false);
  }
  if ("node" in step) life.label(step.node, step.do === "gain");
  else if ("owner" in step) life.answers.set(step.owner, step.do);
  else if (step.do === "settle") settle(life);
  else if (step.do === "restart") life.restart();
  else if ("pod" in step) {
    const uid = [...life.pods.keys()][step.pod] ?? "";
    if (step.do === "end") life.end(uid);
    else life.ready(uid, step.do === "ready");
  }
  life.pass(0);
}

/** Kubelets have done their work. */
function settle(life: Life): void {
  for (const uid of life.pods.keys()) {
    life.end(uid);
    life.ready(uid, true);
  }
}

describe("any history of nodes, pods and budgets", () => {
  const run = seededRun(300, process.env);
  it(
    `D-D30 breaks no rule of a policy, and no pod with another node stays lost (${run.name})`,
    run.options,
    () => {
      fc.assert(
        fc.property(history, labels, (history, labels) => {
          const life = new Life();
          for (const one of history) take(life, one);
          // The user lets all go, and the labels stay as they are.
          life.answers.clear();
          for (const name of NODES) life.label(name, labels.includes(name));
          life.setPolicy(open);
          for (let round = 0; round < 60; round += 1) {
            settle(life);
            life.pass(61_000);
          }
          expect(life.violations).toEqual([]);
          expect([...life.pods.values()].filter((it) => life.isLost(it))).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
