import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../testing/cpu-cost.ts";
import { seededRun } from "../testing/property.ts";
import { createJsonMeter, MAX_DEPTH, MAX_ELEMENTS } from "./json-meter.ts";

const MAX_BYTES = 5 * 1024 * 1024;

/** Taken as a whole? */
const isTaken = (text: string): boolean => createJsonMeter()(Buffer.from(text));
const nested = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;

describe("S-6 a meter", () => {
  it("counts elements and levels, and not what texts hold", () => {
    expect(isTaken(`[${"0,".repeat(MAX_ELEMENTS - 1)}0]`)).toBe(true);
    expect(isTaken(`[${"0,".repeat(MAX_ELEMENTS)}0]`)).toBe(false);
    expect(isTaken(`[${"{},".repeat(MAX_ELEMENTS / 2)}{}]`)).toBe(false);
    expect(isTaken(`["${'[{,\\"'.repeat(MAX_ELEMENTS)}", "\\\\"]`)).toBe(true);
    expect(isTaken(`"\\\\",${"[".repeat(MAX_DEPTH + 1)}`)).toBe(false);
    expect([isTaken(nested(MAX_DEPTH)), isTaken(nested(MAX_DEPTH + 1))]).toEqual([true, false]);
    expect(isTaken(nested(10).repeat(2000))).toBe(true);
  });

  const run = seededRun(300, process.env);
  it(`says the same of JSON in pieces (${run.name})`, run.options, () => {
    const deep = fc.nat(2 * MAX_DEPTH).map((levels) => `["\\\\\\"[",${nested(levels)}]`);
    const texts = fc.oneof(fc.json(), deep);
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 50 }), (text, size) => {
        const bytes = Buffer.from(text);
        const meter = createJsonMeter();
        let said = true;
        for (let at = 0; at < bytes.length && said; at += size) said = meter(bytes.subarray(at, at + size));
        expect(said).toBe(isTaken(text));
      }),
      run.parameters,
    );
  });

  /** As many of these as are taken. */
  const many = (elements: number, item: (index: number) => string): string => {
    const items: string[] = [];
    let bytes = 0;
    for (let index = 0; index < MAX_ELEMENTS / elements - 1 && bytes < MAX_BYTES - 200; index += 1) {
      const text = item(index);
      items.push(text);
      bytes += text.length + 1;
    }
    return items.join(",");
  };
  /** @param inARow more than one for what costs less than a step. */
  const costOf = (text: string, inARow = 1): number => {
    const bytes = Buffer.from(text);
    const parse = (): void => {
      for (let done = 0; done < inARow; done += 1) JSON.parse(bytes.toString("utf8"));
    };
    return cpuMsOf(parse) / inARow;
  };
  let plainMs: number | undefined;
  it.each([
    ["different keys", () => `{${many(1, (index) => `"k${index}":0`)}}`],
    ["objects of different shapes", () => `[${many(2, (index) => `{"k${index}":0}`)}]`],
    [
      "large objects of different shapes",
      () => `[${many(5, (at) => `{"a${at}":0,"b${at}":0,"c${at}":1,"d${at}":2}`)}]`,
    ],
    ["long keys", () => `[${many(2, (index) => `{"${"k".repeat(80)}${index}":"${"x".repeat(40)}"}`)}]`],
    ["long numbers", () => `[${many(1, (index) => `0.${"123456789".repeat(6)}${index}e-300`)}]`],
    ["one text with escapes", () => `"${"\\n\\u4e2d".repeat(MAX_BYTES / 8 - 1)}"`],
    ["one text that is not of Latin letters", () => `"${"abcdefgh\\n".repeat(MAX_BYTES / 10 - 10)}中"`],
  ])(
    "takes nothing that costs JSON.parse 30 times what as many equal objects do, which are some 4 ms: %s",
    (_what, textOf) => {
      const text = textOf();
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_BYTES);
      expect(isTaken(text)).toBe(true);
      expect(costOf(text)).toBeLessThan(30 * (plainMs ??= costOf(`[${many(2, () => `{"a":0}`)}]`, 10)));
    },
  );
});
