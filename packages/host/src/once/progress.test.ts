import { createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { formatSeconds, Progress } from "./progress.ts";

const output = (isTerminal: boolean) => ({
  written: "",
  write(text: string) {
    this.written += text;
  },
  isTerminal,
  columns: 20,
});

describe("Progress", () => {
  it("says nothing about work that takes under two seconds", async () => {
    const [clock, out] = [createVirtualClock(), output(true)];
    {
      using progress = new Progress(out, clock, "reading");
      await clock.advance(1999);
      progress.update("still reading");
    }
    await clock.advance(60_000);
    expect(out.written).toBe("");
  });

  it("redraws one line on a terminal, within its width, and takes it away in the end", async () => {
    const [clock, out] = [createVirtualClock(), output(true)];
    {
      using progress = new Progress(out, clock, "reading");
      await clock.advance(2000);
      expect(out.written).toBe("\r\u001b[Kreading … 2 s");
      progress.update("reading a very long list");
      await clock.advance(200);
    }
    expect(out.written).toBe("\r\u001b[Kreading … 2 s\r\u001b[Kreading a very long\r\u001b[K");
  });

  it("writes a line now and then elsewhere", async () => {
    const [clock, out] = [createVirtualClock(), output(false)];
    using _progress = new Progress(out, clock, "building");
    await clock.advance(25_000);
    expect(out.written).toBe("building … 2 s\nbuilding … 12 s\nbuilding … 22 s\n");
  });
});

it.each([
  [0, "0 s"],
  [59_999, "59 s"],
  [60_000, "1 min 00 s"],
  [365_000, "6 min 05 s"],
])("%i ms are %s", (ms, text) => {
  expect(formatSeconds(ms)).toBe(text);
});
