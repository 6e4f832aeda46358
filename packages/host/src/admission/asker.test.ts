import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createAsker } from "./asker.ts";

/** An asker, and questions whose answers come when the test says so. */
function fixture() {
  const clock = createVirtualClock();
  const asker = createAsker(clock);
  const sent: string[] = [];
  const pending = new Map<string, PromiseWithResolvers<string>>();
  const send = (question: string) => (): Promise<string> => {
    sent.push(question);
    const answer = Promise.withResolvers<string>();
    pending.set(question, answer);
    return answer.promise;
  };
  const ask = (question: string, user = "u", namespace = "n", peer?: string): Promise<string> | undefined =>
    asker.ask(question, { user, namespace, peer }, send(question));
  const reply = async (question: string): Promise<void> => {
    pending.get(question)?.resolve(`${question}!`);
    // The end of a question frees its place a moment after its answer.
    await new Promise(setImmediate);
  };
  return { clock, sent, pending, ask, reply };
}

describe("open questions", () => {
  it("S-14 are two of a user in a namespace, and four of the namespace: the others must ask again", async () => {
    const { sent, ask, reply } = fixture();
    for (const at of [1, 2, 3]) void ask(`ann${at}`, "ann");
    for (const at of [1, 2, 3]) void ask(`bob${at}`, "bob");
    expect(ask("eve", "eve")).toBeUndefined();
    expect(ask("else", "ann", "other")).toBeDefined();
    expect(sent).toEqual(["ann1", "ann2", "bob1", "bob2", "else"]);
    await reply("ann1");
    expect(ask("bob4", "bob")).toBeUndefined();
    expect(ask("eve2", "eve")).toBeDefined();
    expect(ask("ann4", "ann")).toBeUndefined();
    await reply("bob1");
    expect(ask("ann5", "ann")).toBeDefined();
  });

  it("S-14 of one address leave half to others, however many users and namespaces it claims", () => {
    const { sent, ask } = fixture();
    for (let at = 0; at < 100; at++) void ask(`forged ${at}`, `u${at}`, `n${at}`, "127.0.0.2");
    expect(sent).toHaveLength(16);
    for (let at = 0; at < 100; at++) void ask(`honest ${at}`, `u${at}`, `n${at}`, "127.0.0.1");
    expect(sent.filter((it) => it.startsWith("honest"))).toHaveLength(8);
  });

  it("S-14 are 50 a second of a user in a namespace and 100 of the namespace, after twice as many at once", async () => {
    const { clock, sent, ask, reply } = fixture();
    let at = 0;
    /** How many of `count` new questions are sent, one at a time. */
    const send = async (count: number, user: string, namespace?: string): Promise<number> => {
      const before = sent.length;
      for (let one = 0; one < count; one++) {
        const question = `${at++}`;
        void ask(question, user, namespace);
        await reply(question);
      }
      return sent.length - before;
    };
    expect(await send(101, "ann")).toBe(100);
    expect(await send(101, "bob")).toBe(100);
    expect(await send(1, "eve")).toBe(0);
    expect(await send(1, "ann", "other")).toBe(1);
    await clock.advance(1000);
    expect(await send(60, "ann")).toBe(50);
    // What ann was refused is left to others.
    expect(await send(60, "eve")).toBe(50);
    expect(await send(1, "bob")).toBe(0);
    await clock.advance(60_000);
    expect(await send(101, "ann")).toBe(100);
  });

  it("free their places when they fail, and the failure is not kept", async () => {
    const { sent, pending, ask } = fixture();
    for (const round of [1, 2, 3]) {
      const answer = ask("a");
      const other = ask("b");
      pending.get("a")?.reject(new Error(`no ${round}`));
      pending.get("b")?.reject(new Error(`no ${round}`));
      await expect(answer).rejects.toThrow(`no ${round}`);
      await expect(other).rejects.toThrow(`no ${round}`);
    }
    expect(sent).toHaveLength(6);
  });
});

describe("an answer", () => {
  it("S-14 is shared by equal questions while it is awaited, and for 3 s after that", async () => {
    const { clock, sent, ask, reply } = fixture();
    const all = [ask("a"), ask("a", "other"), ask("a", "u", "other", "127.0.0.2")];
    expect(sent).toEqual(["a"]);
    await clock.advance(10_000);
    await reply("a");
    for (const one of all) expect(await one).toBe("a!");
    await clock.advance(2_999);
    expect(await ask("a")).toBe("a!");
    expect(sent).toEqual(["a"]);
    await clock.advance(1);
    void ask("a");
    expect(sent).toEqual(["a", "a"]);
  });

  it("is one of the last 1,000", async () => {
    const { sent, ask, reply } = fixture();
    for (let at = 0; at < 1001; at++) {
      void ask(`${at}`, "u", `n${at}`);
      await reply(`${at}`);
    }
    void ask("1");
    expect(sent).toHaveLength(1001);
    void ask("0");
    expect(sent).toHaveLength(1002);
  });
});
