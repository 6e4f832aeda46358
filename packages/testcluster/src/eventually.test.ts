import { describe, expect, it } from "vitest";
import { eventually, NotEventuallyError } from "./eventually.ts";

describe("eventually", () => {
  it("resolves with the value of the first check that passes", async () => {
    let tries = 0;
    const value = await eventually(
      () => {
        tries += 1;
        if (tries < 3) throw new Error("not yet");
        return tries;
      },
      { everyMs: 1 },
    );
    expect(value).toBe(3);
  });

  it("reports the last failure as message and cause", async () => {
    const cause = new Error("still 2 of 3");
    const failing = eventually(() => Promise.reject(cause), { timeoutMs: 20, everyMs: 1 });
    await expect(failing).rejects.toMatchObject({ name: "NotEventuallyError", cause });
    await expect(failing).rejects.toThrow("still 2 of 3");
  });

  it("gives up on a check that hangs, and tells it so", async () => {
    let told = false;
    const hanging = eventually(
      (signal) => new Promise(() => signal.addEventListener("abort", () => (told = true))),
      { timeoutMs: 20 },
    );
    await expect(hanging).rejects.toThrow(NotEventuallyError);
    expect(told).toBe(true);
  });

  it("keeps the reason of an earlier failure when the last check was cut off", async () => {
    let tries = 0;
    const failing = eventually(
      (signal) => {
        tries += 1;
        if (tries === 1) throw new Error("the real reason");
        return new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(new Error("aborted"))),
        );
      },
      { timeoutMs: 50, everyMs: 1 },
    );
    await expect(failing).rejects.toThrow("the real reason");
  });

  it("stops at once with the caller's reason when the caller's signal aborts", async () => {
    const reason = new Error("enough");
    const controller = new AbortController();
    const waiting = eventually(() => Promise.reject(new Error("no")), {
      signal: controller.signal,
      timeoutMs: 60_000,
    });
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(eventually(() => 1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});
