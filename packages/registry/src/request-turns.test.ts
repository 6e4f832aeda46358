import { describe, expect, it } from "vitest";
import { RequestTurns, type RequestTurnsOptions, type Turn } from "./request-turns.ts";

/** Who got a turn, in order; each is ended by `end`. */
function queue(options: RequestTurnsOptions): {
  readonly turns: RequestTurns;
  readonly running: { readonly who: string; readonly turn: Turn }[];
  readonly order: string[];
  readonly ask: (registry: string, who: string, namespace?: string) => void;
  readonly end: (who: string) => Promise<void>;
} {
  const turns = new RequestTurns(options);
  const running: { readonly who: string; readonly turn: Turn }[] = [];
  const order: string[] = [];
  return {
    turns,
    running,
    order,
    ask(registry, who, namespace = "team") {
      void turns.take({ namespace, registry, name: who }).then((turn) => {
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
    const { ask, order } = queue({ total: 16, perRegistry: 2 });
    for (const who of ["a1", "a2", "a3", "b1"]) ask(`${who.slice(0, 1)}.io`, who);
    await settle();
    expect(order).toEqual(["a1", "a2", "b1"]);
  });

  it("are kept for registries that answered promptly when they were asked last", async () => {
    const { ask, end, running, order } = queue({ total: 8, unproven: 4 });
    ask("good.io", "g1");
    await settle();
    running[0]?.turn.asked(true);
    await end("g1");
    for (const who of ["x1", "y1", "z1"]) ask(`${who}.io`, who);
    for (const who of ["g2", "g3", "g4"]) ask("good.io", who);
    await settle();
    expect(order).toEqual(["g1", "x1", "y1", "g2", "g3"]);
    running.find(({ who }) => who === "g2")?.turn.asked(false);
    await end("x1");
    await end("y1");
    expect(order.slice(5)).toEqual(["z1", "g4"]);
  });

  it("S-2 leave one for a newcomer, however many namespaces ask for everything", async () => {
    const { ask, end, order } = queue({ total: 16, unproven: 16 });
    const namespaces = Array.from({ length: 10 }, (_, index) => `evil-${index}`);
    for (let at = 0; at < 10; at += 1)
      for (const namespace of namespaces) ask(`${namespace}-${at}.io`, `${namespace} ${at}`, namespace);
    await settle();
    const before = order.length;
    ask("mine.io", "mine", "newcomer");
    await settle();
    expect(order[before]).toBe("mine");
    // And from then on it is their equal.
    ask("mine.io", "mine too", "newcomer");
    await end("mine");
    expect(order.at(-1)).toBe("mine too");
  });

  it("S-2 go to the namespace with the fewest under way, and to equals in turn", async () => {
    const { ask, end, order } = queue({ total: 2, unproven: 2 });
    for (const who of ["a1", "a2", "a3", "b1", "b2", "c1"]) ask(`${who}.io`, who, who.slice(0, 1));
    for (const who of ["a1", "b1", "a2", "b2"]) await end(who);
    expect(order).toEqual(["a1", "b1", "a2", "b2", "c1", "a3"]);
  });

  it("are for one question about a name at a time, and the next is that of another namespace", async () => {
    const { turns } = queue({});
    const order: string[] = [];
    const ask = async (namespace: string): Promise<void> => {
      using _turn = await turns.take({ namespace, registry: "a.io", name: "a.io/x" });
      order.push(namespace);
      await settle();
    };
    await Promise.all(["a", "a", "a", "b"].map(ask));
    expect(order).toEqual(["a", "a", "b", "a"]);
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
