/** Whatever is asked, in whatever order it is answered: what the store promises about requests, facts and scopes. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { FactDemand } from "./fact-question.ts";
import { ImageFactStore } from "./image-facts.ts";
import { parseReference } from "./reference.ts";
import { settle } from "./testing/fact-bench.ts";
import { CREDENTIALS, KINDS, run, steps } from "./testing/fact-model.ts";
import { ScriptedReader } from "./testing/scripted-reader.ts";

describe("A-B5 any questions, answered in any order", () => {
  it("one request for a name, none for what is fresh or failed, and none for credentials that were refused", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const { mostPerName, mostPerRegistry, mostAtOnce } = await run(all, {});
        expect(mostPerName).toBeLessThanOrEqual(1);
        expect(mostPerRegistry).toBeLessThanOrEqual(4);
        expect(mostAtOnce).toBeLessThanOrEqual(16);
      }),
      { numRuns: 300 },
    );
  });

  it("few turns, few facts and few questions change how long it takes, and nothing else", async () => {
    const narrow = { turns: { total: 2, perRegistry: 1 }, maxFacts: 3, maxFailures: 3, maxWaiting: 5 };
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const { mostPerName, mostPerRegistry, mostAtOnce } = await run(all, narrow);
        expect(mostPerName).toBeLessThanOrEqual(1);
        expect(mostPerRegistry).toBeLessThanOrEqual(1);
        expect(mostAtOnce).toBeLessThanOrEqual(2);
      }),
      { numRuns: 200 },
    );
  });

  it("S-3 a failure is never told to a scope with other credentials", async () => {
    const order = fc.shuffledSubarray([0, 1, 2], { minLength: 3 });
    await fc.assert(
      fc.asyncProperty(order, fc.constantFrom(...KINDS), async (scopes, kind) => {
        const reader = new ScriptedReader();
        await using store = new ImageFactStore({ reader, now: () => 0, monotonic: () => 0 });
        const demand = (who: number): FactDemand => ({
          reference: parseReference("a.io/private"),
          pull: "IfNotPresent",
          scope: `scope-${who}`,
          credentials: async () => CREDENTIALS[who] ?? [],
        });
        const refused = new Set<string>();
        for (const who of scopes) {
          const wanted = store.want(demand(who));
          await settle();
          const credentials = JSON.stringify(CREDENTIALS[who]);
          expect(store.look(demand(who)).state).toBe(refused.has(credentials) ? "failed" : "unknown");
          expect(reader.pending).toHaveLength(refused.has(credentials) ? 0 : 1);
          for (const request of reader.pending) request.fail(kind);
          await wanted;
          expect(store.look(demand(who))).toMatchObject({ state: "failed", error: { kind } });
          refused.add(credentials);
        }
      }),
    );
  });
});
