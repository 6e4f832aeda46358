import * as fc from "fast-check";
import { expect, it } from "vitest";
import { seededRun } from "../testing/property.ts";
import { createRoom } from "./room.ts";

const run = seededRun(500, process.env);
const steps = fc.array(
  fc.record({
    peer: fc.option(fc.constantFrom("a", "b", "c"), { nil: undefined }),
    amount: fc.nat(60),
    gives: fc.boolean(),
  }),
);

it(
  `S-6 a room is never overfull, and no peer holds more than it left free (${run.name})`,
  run.options,
  () => {
    fc.assert(
      fc.property(steps, (taken) => {
        const room = createRoom(100);
        const held: { peer: string | undefined; amount: number; place: Disposable }[] = [];
        for (const { peer, amount, gives } of taken) {
          if (gives) {
            const { place } = held.shift() ?? {};
            place?.[Symbol.dispose]();
            place?.[Symbol.dispose]();
            continue;
          }
          const before = held.reduce((sum, it) => sum + it.amount, 0);
          const own = held.filter((it) => it.peer === peer).reduce((sum, it) => sum + it.amount, amount);
          const place = room.take(amount, peer);
          expect(place !== undefined).toBe(100 - before - amount >= (peer === undefined ? 0 : own));
          if (place !== undefined) held.push({ peer, amount, place });
        }
        for (const { place } of held) place[Symbol.dispose]();
        expect(room.take(100, undefined)).toBeDefined();
      }),
      run.parameters,
    );
  },
);

it("S-6 who finds no room waits for it, and no longer than told", async () => {
  const room = createRoom(10);
  const first = room.take(5, "a");
  const over = new AbortController();
  const [waiting, other] = [room.wait(5, "a", over.signal), room.wait(6, "b", over.signal)];
  first?.[Symbol.dispose]();
  expect(await waiting).toBeDefined();
  over.abort();
  expect(await other).toBeUndefined();
});
