import { expect, it } from "vitest";
import { Keeper } from "./keeper.ts";

/** A service that answers when it is told to. */
function service() {
  const open: { readonly name: string; answer(): void }[] = [];
  const asked: string[] = [];
  const world = {
    isUp: true,
    asked,
    question: (name: string) => () => {
      asked.push(name);
      const { promise, resolve } = Promise.withResolvers<void>();
      open.push({ name, answer: resolve });
      return promise;
    },
    async answer(name: string): Promise<void> {
      const at = open.findIndex((it) => it.name === name);
      open.splice(at, 1)[0]?.answer();
      await new Promise<void>((resolve) => setImmediate(resolve));
    },
  };
  return { ...world, world, keeper: new Keeper(() => world.isUp) };
}

it("asks four at a time, in order, and the next with each answer", async () => {
  const one = service();
  const { keeper, asked } = one;
  for (const name of ["a", "b", "c", "d", "e", "f"]) keeper.ask(name, one.question(name));
  expect(asked.join("")).toBe("abcd");
  expect(["a", "e", "g"].map((it) => keeper.has(it))).toEqual([true, true, false]);
  await one.answer("c");
  expect(asked.join("")).toBe("abcde");
  expect(keeper.has("c")).toBe(false);
});

it("asks nothing more while the service does not work, and all that waits afterwards", async () => {
  const one = service();
  const { keeper, asked, world } = one;
  keeper.ask("a", one.question("a"));
  world.isUp = false;
  keeper.ask("b", one.question("b"));
  await one.answer("a");
  expect(asked).toEqual(["a"]);
  world.isUp = true;
  keeper.next();
  expect(asked).toEqual(["a", "b"]);
});

it("replaces a question that waits, and asks the newest after the answer to one that is asked", async () => {
  const one = service();
  const { keeper, asked } = one;
  keeper.ask("a", one.question("read a"));
  keeper.ask("a", one.question("create a"));
  keeper.ask("a", one.question("delete a"));
  keeper.ask("b", one.question("b"));
  expect(asked).toEqual(["read a", "b"]);
  await one.answer("read a");
  expect(asked).toEqual(["read a", "b", "delete a"]);
});

it("forgets a question that waits", async () => {
  const one = service();
  const { keeper, asked, world } = one;
  world.isUp = false;
  keeper.ask("a", one.question("a"));
  keeper.forget("a");
  world.isUp = true;
  keeper.next();
  await one.answer("a");
  expect([asked, keeper.has("a")]).toEqual([[], false]);
});
