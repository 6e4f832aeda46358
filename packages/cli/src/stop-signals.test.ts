import { describe, expect, it } from "vitest";
import type { ExitCode } from "./exit-codes.ts";
import { createStopSignals, type StopSignal } from "./stop-signals.ts";

describe("signals", () => {
  it.each<readonly [readonly StopSignal[], readonly ExitCode[]]>([
    [["SIGTERM"], []],
    [["SIGINT"], []],
    [["SIGTERM", "SIGTERM"], [143]],
    [["SIGTERM", "SIGINT"], [130]],
    [["SIGINT", "SIGTERM"], [143]],
  ])("%j ends in order first, then at once with %j", (signals, expected) => {
    const codes: ExitCode[] = [];
    const stop = createStopSignals((code) => codes.push(code));
    expect(stop.signal.aborted).toBe(false);
    for (const signal of signals) stop.on(signal);
    expect([stop.signal.aborted, codes]).toEqual([true, expected]);
  });
});
