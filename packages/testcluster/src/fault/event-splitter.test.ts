import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventSplitter, type StreamPart } from "./event-splitter.ts";

const textOf = (parts: readonly StreamPart[]): string[] =>
  parts.map(({ bytes, wholeLine }) => `${wholeLine ? "line" : "raw"}:${bytes.toString()}`);

describe("EventSplitter", () => {
  it("gives whole lines, however the bytes arrive", () => {
    const splitter = new EventSplitter();
    expect(textOf(splitter.push(Buffer.from("a\nb"), true))).toEqual(["line:a\n"]);
    expect(textOf(splitter.push(Buffer.from("c"), true))).toEqual([]);
    expect(textOf(splitter.push(Buffer.from("\n\nd"), true))).toEqual(["line:bc\n", "line:\n"]);
    expect(splitter.flush().toString()).toBe("d");
  });

  it("passes bytes on at once when nobody wants lines, and begins at the next line when somebody does", () => {
    const splitter = new EventSplitter();
    expect(textOf(splitter.push(Buffer.from("a\nb"), false))).toEqual(["raw:a\nb"]);
    expect(textOf(splitter.push(Buffer.from("b"), true))).toEqual(["raw:b"]);
    expect(textOf(splitter.push(Buffer.from("b\nc\n"), true))).toEqual(["raw:b\n", "line:c\n"]);
  });

  it("passes on what it held once nobody wants lines any more", () => {
    const splitter = new EventSplitter();
    splitter.push(Buffer.from("ab"), true);
    expect(textOf(splitter.push(Buffer.from("c\n"), false))).toEqual(["raw:abc\n"]);
    expect(textOf(splitter.push(Buffer.from("d\n"), true))).toEqual(["line:d\n"]);
  });

  it("passes a line that is too long on unread", () => {
    const splitter = new EventSplitter(4);
    expect(textOf(splitter.push(Buffer.from("abc"), true))).toEqual([]);
    expect(textOf(splitter.push(Buffer.from("de"), true))).toEqual(["raw:abcde"]);
    expect(textOf(splitter.push(Buffer.from("f\ng\n"), true))).toEqual(["raw:f\n", "line:g\n"]);
  });

  it("never loses, doubles or reorders a byte, and every line it gives is one", () => {
    const chunk = fc.record({
      text: fc.string({ unit: fc.constantFrom("a", "b", "\n") }),
      wanted: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(chunk), fc.integer({ min: 1, max: 10 }), (chunks, longest) => {
        const splitter = new EventSplitter(longest);
        const parts = chunks.flatMap(({ text, wanted }) => splitter.push(Buffer.from(text), wanted));
        const all = Buffer.concat([...parts.map(({ bytes }) => bytes), splitter.flush()]).toString();
        expect(all).toBe(chunks.map(({ text }) => text).join(""));
        const lines = all.split(/(?<=\n)/);
        const given = parts.filter(({ wholeLine }) => wholeLine).map(({ bytes }) => bytes.toString());
        expect(given.filter((line) => !lines.includes(line))).toEqual([]);
      }),
    );
  });
});
