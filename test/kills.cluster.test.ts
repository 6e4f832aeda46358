/**
 * Again and again Berth is killed (SIGKILL) at a random point of its work, while nodes and rules change. Whatever it left
 * behind, the next start mends it.
 */
import { type HttpProxy, sharedTestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun, steps } from "../packages/runtime/src/testing/property.ts";
import { type Death, setTrap } from "./kill-trap.ts";
import { proxyOf } from "./label-faults.ts";
import { createLabelFixture, type LabelFixture } from "./label-fixture.ts";

const cluster = await sharedTestCluster();

/** `make perturb` kills it fifty times. */
const { parameters, name } = seededRun(10, process.env);
const KILLS = parameters.numRuns;
/** Fifty starts of a process take a minute, and several beside much other work. */
const LIMIT_MS = 600_000;
const NODES = 9;
const INPUTS = ["in/a", "in/b", "in/c"];
const RULES = ["out/0", "out/1", "out/2", "out/3"];
/** Changes in every round, and with it two thirds of the nodes: there is always work to die at. */
const RESTLESS = "out/restless";
/** A trap that nothing walks into is sprung this long after the first request: several times as long as that takes. */
const PATIENCE_MS = 3000;
/** And this long after the start when there is none. */
const SILENCE_MS = 10_000;

const node = fc.nat(NODES - 1);
const input = fc.constantFrom(...INPUTS);
const rule = fc.nat(RULES.length - 1);
/** A rule lists inputs, and rules before it: chains, and no circles. */
const write = rule.chain((of) => {
  const lines = fc.uniqueArray(fc.constantFrom(...INPUTS, ...RULES.slice(0, of)), {
    minLength: 1,
    maxLength: 3,
  });
  return fc.record({ do: fc.constant("write" as const), rule: fc.constant(of), lines });
});
const change = fc.oneof(
  steps(4, ["label"], { node, input, on: fc.boolean() }),
  steps(1, ["again"], { node, input }),
  { weight: 3, arbitrary: write },
  steps(1, ["remove"], { rule }),
);
const death: fc.Arbitrary<Death> = fc.oneof(
  steps(3, ["patch"], { count: fc.integer({ min: 1, max: 6 }), forwarded: fc.boolean() }),
  steps(1, ["request"], { count: fc.integer({ min: 1, max: 8 }), forwarded: fc.boolean() }),
  steps(1, ["time"], { ms: fc.integer({ min: 0, max: 900 }) }),
);
const round = fc.record({ changes: fc.array(change, { minLength: 3, maxLength: 6 }), death });
type Round = typeof round extends fc.Arbitrary<infer R> ? R : never;

describe("a Berth that is killed", () => {
  it(
    `L-B1 at random points leaves nothing that the next start does not mend (${KILLS} kills, ${name})`,
    async () => {
      await using fixture = await createLabelFixture(cluster, "kills");
      await using proxy = await proxyOf(cluster);
      for (const [index, rule] of RULES.entries()) await fixture.rules.write(rule, INPUTS[index % 3] ?? "");
      for (let index = 0; index < NODES; index++)
        await fixture.add(`n${index}`, (it) => it.labelled({ [INPUTS[index % 3] ?? ""]: "1" }));
      const rounds = fc.array(round, { minLength: KILLS, maxLength: KILLS });
      const run = async (all: readonly Round[]): Promise<void> => {
        let trapped = 0;
        for (const [index, each] of all.entries()) {
          await fixture.rules.write(RESTLESS, INPUTS[index % 3] ?? "");
          if (await liveAndDie(fixture, proxy, each)) trapped += 1;
        }
        const last = await fixture.start();
        await fixture.right();
        await last.ready();
        await fixture.restful();
        // Most of them really died at a request, and not merely some time after it.
        expect(trapped).toBeGreaterThan(KILLS / 3);
      };
      // One run, and no shrinking: a failure tells its seed.
      await fc.assert(fc.asyncProperty(rounds, run), {
        seed: parameters.seed,
        numRuns: 1,
        endOnFailure: true,
      });
      const written = proxy.requests.filter(({ verb, status }) => verb === "patch" && status === 200);
      expect(written.length).toBeGreaterThan(KILLS / 2);
    },
    LIMIT_MS,
  );
});

/** @returns whether it died at the request that was chosen. */
async function liveAndDie(
  fixture: LabelFixture,
  proxy: HttpProxy,
  { changes, death: planned }: Round,
): Promise<boolean> {
  using trap = setTrap(proxy, planned);
  const berth = await fixture.start({ server: proxy.url });
  trap.arm(berth);
  const changing = changeAll(fixture, changes);
  const trapped = await Promise.race([
    trap.sprung.then(() => true),
    planned.do === "time" ? after(planned.ms) : trap.begun.then(() => after(PATIENCE_MS)),
    after(SILENCE_MS),
  ]);
  await berth.kill();
  await changing;
  expect(berth.exit).toBe("SIGKILL");
  return trapped;
}

async function changeAll(fixture: LabelFixture, changes: Round["changes"]): Promise<void> {
  for (const it of changes) {
    if (it.do === "label") await fixture.label(`n${it.node}`, { [it.input]: it.on ? "1" : null });
    else if (it.do === "write") await fixture.rules.write(RULES[it.rule] ?? "", ...it.lines);
    else if (it.do === "remove") await fixture.rules.remove(RULES[it.rule] ?? "");
    else {
      await fixture.remove(`n${it.node}`);
      await fixture.add(`n${it.node}`, (node) => node.labelled({ [it.input]: "1" }));
    }
  }
}

const after = (ms: number): Promise<false> =>
  new Promise((resolve) => setTimeout(() => resolve(false), ms).unref());
