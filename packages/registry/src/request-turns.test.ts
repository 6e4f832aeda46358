import { describe, expect, it } from "vitest";
import { RequestTurns, type RequestTurnsOptions, type Turn } from "./request-turns.ts";

/** Who got a turn, in order; each is ended by `end`. */
function queue(options: RequestTurnsOptions): {
  readonly turns: RequestTurns;
  readonly running: { readonly who: string; readonly turn: Turn }[];
  readonly order: string[];
  readonly ask: (registry: string, who: string) => void;
  readonly end: (who: string) => Promise<void>;
} {
  const turns = new RequestTurns(options);
  const running: { readonly who: string; readonly turn: Turn }[] = [];
  const order: string[] = [];
  return {
    turns,
    running,
    order,
    ask(registry, who) {
      void turns.take(registry).then((turn) => {
        order.push(turn === undefined ? `${who} never` : who);
        if (turn !== undefined) running.push({ who, turn });
        return undefined;
      });
    },
    async end(who) {
      await settle();
      running.find((one) => one.who === who)?.turn[Symbol.dispose]();
      await settle();
    },
  };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

describe("turns", () => {
  it("are given in order within a registry, and registries take turns", async () => {
    const { ask, end, order } = queue({ total: 1, unproven: 1 });
    for (const who of ["a1", "a2", "a3", "b1", "b2"]) ask(`${who.slice(0, 1)}.io`, who);
    for (const who of ["a1", "a2", "b1", "a3"]) await end(who);
    expect(order).toEqual(["a1", "a2", "b1", "a3", "b2"]);
  });

  it("are limited for each registry, which keeps none from another", async () => {
    const { ask, order } = queue({ total: 4, perRegistry: 2, unproven: 4 });
    for (const who of ["a1", "a2", "a3", "b1"]) ask(`${who.slice(0, 1)}.io`, who);
    await settle();
    expect(order).toEqual(["a1", "a2", "b1"]);
  });

  it("are kept for registries that have answered", async () => {
    const { ask, end, running, order } = queue({ total: 4, unproven: 2 });
    ask("good.io", "g1");
    await settle();
    running[0]?.turn.answered();
    await end("g1");
    for (const who of ["x1", "y1", "z1"]) ask(`${who}.io`, who);
    ask("good.io", "g2");
    ask("good.io", "g3");
    await settle();
    expect(order).toEqual(["g1", "x1", "y1", "g2", "g3"]);
    await end("x1");
    expect(order.at(-1)).toBe("z1");
  });

  it("end once, however often they are disposed of", async () => {
    const { ask, running, order } = queue({ total: 1, unproven: 1 });
    for (const who of ["a1", "a2", "a3"]) ask("a.io", who);
    await settle();
    running[0]?.turn[Symbol.dispose]();
    running[0]?.turn[Symbol.dispose]();
    await settle();
    expect(order).toEqual(["a1", "a2"]);
  });

  it("are given to nobody after the end", async () => {
    const { ask, turns, end, order } = queue({ total: 1, unproven: 1 });
    for (const who of ["a1", "a2"]) ask("a.io", who);
    await settle();
    turns.close();
    ask("a.io", "a3");
    await end("a1");
    expect(order).toEqual(["a1", "a2 never", "a3 never"]);
  });
});
