import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { NameLookups } from "./name-lookups.ts";

/** Resolves when it is told to. */
function bench(patienceMs = 60_000) {
  const underWay = new Map<string, (error: NodeJS.ErrnoException | null) => void>();
  const ended: string[] = [];
  const names = new NameLookups(patienceMs, (hostname, _options, done) => {
    underWay.set(hostname, (error) => done(error, "192.0.2.1", 4));
  });
  const end = (hostname: string, error: NodeJS.ErrnoException | null): void => {
    const settle = underWay.get(hostname);
    underWay.delete(hostname);
    settle?.(error);
  };
  return {
    ended,
    underWay: () => [...underWay.keys()],
    ask: (hostname: string) =>
      names.lookup(hostname, {}, (error, address) =>
        ended.push(`${hostname} ${error?.code ?? (typeof address === "string" ? address : "several")}`),
      ),
    answer: (hostname: string) => end(hostname, null),
    fail: (hostname: string) => end(hostname, Object.assign(new Error("none"), { code: "ENOTFOUND" })),
  };
}

describe("names of hosts", () => {
  it("are resolved two at a time until they have been, and then beside new ones, but never four", () => {
    const { ask, answer, fail, underWay, ended } = bench();
    for (const name of ["ghcr.io", "silent.example", "mute.example", "quay.io"]) ask(name);
    expect(underWay()).toEqual(["ghcr.io", "silent.example"]);
    answer("ghcr.io");
    expect(underWay()).toEqual(["silent.example", "mute.example"]);
    ask("ghcr.io");
    expect(underWay()).toEqual(["silent.example", "mute.example", "ghcr.io"]);
    ask("ghcr.io");
    fail("silent.example");
    expect(underWay()).toEqual(["mute.example", "ghcr.io", "quay.io"]);
    answer("quay.io");
    answer("ghcr.io");
    expect(ended).toEqual([
      "ghcr.io 192.0.2.1",
      "silent.example ENOTFOUND",
      "quay.io 192.0.2.1",
      "ghcr.io 192.0.2.1",
    ]);
  });

  it("S-2 of one zone with silent servers hold one thread, and whoever resolved before never waits", async () => {
    const { ask, answer, underWay, ended } = bench();
    for (const name of ["docker.io", "x1.evil.example"]) {
      ask(name);
      answer(name);
    }
    for (const name of ["x1.evil.example", "x2.evil.example", "x3.evil.example"]) ask(name);
    ask("ghcr.io");
    expect(underWay()).toEqual(["x1.evil.example", "ghcr.io"]);
    for (const name of ["mute.invalid", "silent.test", "docker.io"]) ask(name);
    expect(underWay()).toEqual(["x1.evil.example", "ghcr.io", "mute.invalid"]);
    await Promise.resolve();
    expect(ended.slice(2)).toEqual(["docker.io 192.0.2.1"]);
  });

  it("that have no turn in time fail, and never take one", async () => {
    const { ask, fail, underWay, ended } = bench(1);
    for (const name of ["silent.example", "mute.example", "late.example"]) ask(name);
    while (ended.length === 0) await setImmediate();
    expect(ended).toEqual(["late.example EAI_AGAIN"]);
    fail("silent.example");
    expect(underWay()).toEqual(["mute.example"]);
    expect(ended).toEqual(["late.example EAI_AGAIN", "silent.example ENOTFOUND"]);
  });
});
