import { createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import type { CommandDeps } from "../command-deps.ts";
import { exitCodes } from "../exit-codes.ts";
import { watching } from "./watch.ts";

/** Runs a command that shows these texts one after the other, and then ends the watch. */
async function watch(...texts: readonly (string | Error)[]) {
  const clock = createVirtualClock(0);
  const ended = new AbortController();
  let printed = "";
  let looks = 0;
  const stdout = { write: (text: string) => void (printed += text), isTerminal: true, columns: 99 };
  const deps = { clock, signal: ended.signal, stdout } as unknown as CommandDeps;
  const act = (own: CommandDeps) => {
    const text = texts[looks++];
    if (looks >= texts.length) ended.abort();
    if (text instanceof Error) return Promise.reject(text);
    expect([own.stdout.isTerminal, own.stdout.columns]).toEqual([true, 99]);
    own.stdout.write(text ?? "");
    return Promise.resolve(exitCodes.needsPerson);
  };
  const end = watching(act, deps).then((code) => ({ code, printed, looks }));
  while (!ended.signal.aborted) {
    await new Promise(setImmediate);
    await clock.advance(2000);
  }
  return end;
}

it("shows again what changed, every two seconds, and ends with the code of the last look", async () => {
  expect(await watch("a\n", "a\n", "b\n")).toEqual({
    code: exitCodes.needsPerson,
    printed: "a\n\nb\n",
    looks: 3,
  });
});

it("does not take a request that Ctrl-C ended for a failure", async () => {
  expect((await watch("a\n", new Error("aborted"))).printed).toBe("a\n");
});
