import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "./clock.ts";
import { createJsonLogger, createSilentLogger, type LogLevel } from "./json-log.ts";

function logger(level: LogLevel = "info") {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  const log = createJsonLogger({ level, clock: createVirtualClock(), destination });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? "{}") as Record<string, unknown> };
}

describe("createJsonLogger", () => {
  it("writes one JSON object a line: level by name, RFC 3339 time, message and fields", () => {
    const { log, lines } = logger();
    log.with({ controller: "nodes" }).warn("slow", { tookMs: 5 });
    expect(lines).toEqual([
      '{"level":"warn","time":"2026-01-01T00:00:00.000Z","controller":"nodes","tookMs":5,"msg":"slow"}\n',
    ]);
  });

  it("leaves out what is below its level, without looking at the fields", () => {
    const { log, lines } = logger("warn");
    const fields = {
      get costly(): never {
        throw new Error("looked");
      },
    };
    log.info("quiet", fields);
    log.debug("quiet", fields);
    expect(lines).toEqual([]);
    log.error("loud", fields);
    expect(lines[0]).toContain("unreadable");
  });

  it("redacts credentials by the name of the field, at any depth, and leaves names that only sound so", () => {
    const { log, last } = logger();
    const names = ["token", "Authorization", "x-api-key", "client_secret", "client-key-data"];
    const request = { headers: Object.fromEntries(names.map((name) => [name, "a"])) };
    log.info("x", { request, map: new Map([["password", "f"]]), secretName: "my-tls", tokens: 5 });
    expect(last()).toMatchObject({ secretName: "my-tls", tokens: 5, map: { password: "[redacted]" } });
    const { headers } = last()["request"] as { headers: Record<string, string> };
    expect(new Set(Object.values(headers))).toEqual(new Set(["[redacted]"]));
  });

  it("redacts bearer headers and web tokens inside any text, message and error included", () => {
    const { log, lines } = logger();
    const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl";
    log.error(`got ${jwt}`, { note: "Authorization: Basic abcdefghijkl", error: new Error(`bad ${jwt}`) });
    log.with({ note: jwt }).error("bearer abcdef.0123456789abcdef");
    log.error("basic authentication failed");
    expect(lines.at(-1)).toContain("basic authentication failed");
    expect(lines.join("")).not.toMatch(/c2lnbmF0dXJl|abcdefghijkl|0123456789abcdef/);
  });

  it("S-10 takes time in proportion to a text of anybody's choice, and bounds names as well", () => {
    const { log, lines } = logger();
    const units = ["eyJaaaaaaaa-", "eyJ-", "bearer ", "authorization:a ", "authorization", "eyJaaaaaaaa."];
    for (const unit of units) {
      const text = unit.repeat(8_192 / unit.length);
      const began = performance.now();
      // 1 MB; it took four seconds where time was quadratic.
      for (let at = 0; at < 2; at++) log.info("x", Object.fromEntries(Array(60).fill(text).entries()));
      expect(performance.now() - began).toBeLessThan(1_000);
    }
    log.info("x", { ["-k".repeat(500_000)]: 1 });
    expect(lines.at(-1)?.length).toBeLessThan(10_000);
  });

  it("writes errors with message, stack and cause", () => {
    const { log, last } = logger();
    log.error("failed", { error: new TypeError("no", { cause: new Error("why") }) });
    expect(last()).toMatchObject({ error: { name: "TypeError", message: "no", cause: { message: "why" } } });
  });

  it("survives whatever is in a field, and stays bounded", () => {
    const { log, lines, last } = logger();
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    const evil = {
      get trap(): never {
        throw new Error("no");
      },
    };
    log.info("x", {
      circle,
      evil,
      big: 10n,
      long: "y".repeat(100_000),
      many: Array(10_000).fill(1),
      f: () => {},
      level: 9,
    });
    expect(lines[0]?.length).toBeLessThan(20_000);
    expect(last()).toMatchObject({ level: "info", level_: 9, big: "10" });
    fc.assert(
      fc.property(
        fc.string(),
        fc.dictionary(fc.string(), fc.anything({ withBigInt: true, withMap: true })),
        (message, fields) => {
          log.info(message, fields);
          expect(lines.at(-1)?.indexOf("\n")).toBe((lines.at(-1)?.length ?? 0) - 1);
          expect(last()["level"]).toBe("info");
        },
      ),
    );
  });
});

it("createSilentLogger takes everything and gives a silent child", () => {
  const silent = createSilentLogger();
  expect(() => silent.with({ a: 1 }).error("x", { b: 2 })).not.toThrow();
});
