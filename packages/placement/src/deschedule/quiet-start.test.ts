import { expect, it } from "vitest";
import { decideEvictions } from "./decide.ts";
import { EvictionLedger, START_MS } from "./ledger.ts";
import { aView, decided, singles } from "./testing/lost.ts";

it("D-R1 evicts nothing right after the start, because a replacement may still be to come", () => {
  const ledger = new EvictionLedger();
  const startMs = 3_600_000;
  ledger.start(startMs);
  ledger.start(startMs + 5_000);
  const view = (nowMs: number) => aView(singles(1), { ledger, nowMs });
  expect(decideEvictions(view(startMs + 1)).standings).toMatchObject([
    { reason: "ReplacementAwaited", recheckAfterMs: START_MS - 1 },
  ]);
  expect(decided(view(startMs + START_MS))).toEqual(["p1 PodDescheduled"]);
});
