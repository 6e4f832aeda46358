import { expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { createTurns } from "./turns.ts";

it("S-6 peers have turns one after the other, and the event loop goes round between two", async () => {
  const turn = createTurns(createVirtualClock());
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

it("S-6 a peer whose turn took long rests four times as long, and no other does", async () => {
  const clock = createVirtualClock();
  const turn = createTurns(clock);
  for (const peer of ["costly", undefined]) {
    const long = await turn(peer);
    await clock.advance(10);
    long[Symbol.dispose]();
  }
  const order: string[] = [];
  const costly = turn("costly").then(() => order.push("costly"));
  await Promise.all(
    ["other", undefined].map(async (peer) => turn(peer).then(() => order.push(peer ?? "trusted"))),
  );
  await clock.advance(29);
  expect(order).toEqual(["other", "trusted"]);
  await clock.advance(1);
  await costly;
  expect(order).toEqual(["other", "trusted", "costly"]);
});
