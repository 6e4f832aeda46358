import { expect, it } from "vitest";
import { createTurns } from "./turns.ts";

it("S-6 peers have turns one after the other, and the event loop goes round between two", async () => {
  const turn = createTurns();
  const order: string[] = [];
  let rounds = 0;
  const count = (): void => {
    rounds += 1;
    if (order.length < 8) setImmediate(count);
  };
  setImmediate(count);
  const takers = ["a", "a", "a", "a", "a", "b", "c", "b"].map(async (peer) => {
    await turn(peer);
    order.push(peer);
  });
  await Promise.all(takers);
  expect(order.join("")).toBe("aabcabaa");
  expect(rounds).toBeGreaterThanOrEqual(7);
  // All turns are over: the next one waits for nobody.
  await turn("d");
});
