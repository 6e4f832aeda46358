import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MarkId } from "./mark.ts";
import {
  MAX_RECORD_BYTES,
  type MarkRecord,
  ownedMarks,
  parseRecord,
  type RecordedMark,
  stringifyRecord,
  toTimestamp,
} from "./record.ts";

const since = "2026-01-01T00:00:00Z";
const entry: RecordedMark = { capability: "labels", rule: "folder/x", since, by: "berth" };

const text = fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" });
const id = fc.oneof(
  text.map((key): MarkId => `label/${key}`),
  text.map((key): MarkId => `annotation/${key}`),
  fc
    .tuple(text, text)
    .map(([key, effect]): MarkId => `taint/${key.replaceAll(":", "-")}:${effect.replaceAll(":", "-")}`),
  fc.constant<MarkId>("unschedulable"),
);
const mark = fc.record({ capability: text, rule: text, since: text, by: text });
const record = fc
  .tuple(text, fc.array(fc.tuple(id, mark), { maxLength: 8 }))
  .map(([by, marks]): MarkRecord => ({ by, marks: new Map(marks) }));

describe("the ownership record", () => {
  it("is written as documented, in order of mark", () => {
    const marks = new Map<MarkId, RecordedMark>([
      ["label/b", entry],
      ["label/a", { ...entry, by: "other" }],
    ]);
    expect(stringifyRecord({ by: "berth", marks })).toBe(
      '{"v":1,"by":"berth","marks":{' +
        '"label/a":{"c":"labels","r":"folder/x","since":"2026-01-01T00:00:00Z","by":"other"},' +
        '"label/b":{"c":"labels","r":"folder/x","since":"2026-01-01T00:00:00Z"}}}',
    );
  });

  it("without marks is no annotation", () => {
    expect(stringifyRecord({ by: "berth", marks: new Map() })).toBeUndefined();
  });

  it("reads back what it wrote, and writes that again the same", () => {
    fc.assert(
      fc.property(record, (given) => {
        const written = stringifyRecord(given);
        if (written === undefined) return;
        const read = parseRecord(written);
        expect(read).toEqual({ state: "read", record: given });
        expect(stringifyRecord(read.state === "read" ? read.record : given)).toBe(written);
      }),
    );
  });

  it.each([
    ["no JSON", "{"],
    ["no object", "[]"],
    ["null", "null"],
    ["a newer version", '{"v":2,"by":"berth","marks":{}}'],
    ["no version", '{"by":"berth","marks":{}}'],
    ["no installation", '{"v":1,"marks":{}}'],
    ["an empty installation", '{"v":1,"by":"","marks":{}}'],
    ["marks that are no object", '{"v":1,"by":"berth","marks":[]}'],
    ["an entry that is no object", '{"v":1,"by":"berth","marks":{"label/a":1}}'],
    ["an entry without rule", '{"v":1,"by":"berth","marks":{"label/a":{"c":"x","since":"s"}}}'],
    ["a mark of no kind", '{"v":1,"by":"berth","marks":{"toleration/a":{"c":"x","r":"y","since":"s"}}}'],
    ["more than the bound", `{"v":1,"by":"berth","marks":{}}${" ".repeat(MAX_RECORD_BYTES)}`],
  ])("is unreadable with %s", (_what, given) => {
    expect(parseRecord(given).state).toBe("unreadable");
  });

  it("answers for any text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (given) => {
        expect(["read", "unreadable"]).toContain(parseRecord(given).state);
      }),
    );
  });

  it("ignores fields it does not know", () => {
    const given = '{"v":1,"by":"b","x":1,"marks":{"label/a":{"c":"c","r":"r","since":"s","new":true}}}';
    expect(parseRecord(given)).toMatchObject({ state: "read", record: { by: "b" } });
  });

  it("says which marks are ours, whoever the record is named after", () => {
    const marks = new Map<MarkId, RecordedMark>([
      ["label/a", entry],
      ["label/b", { ...entry, by: "other" }],
    ]);
    const read = { state: "read", record: { by: "other", marks } } as const;
    expect([...ownedMarks(read, "berth").keys()]).toEqual(["label/a"]);
    expect([...ownedMarks(read, "other").keys()]).toEqual(["label/b"]);
    expect(ownedMarks(read, "third").size).toBe(0);
    expect(ownedMarks({ state: "unreadable", problem: "" }, "berth").size).toBe(0);
  });

  it("writes times in whole seconds, as Kubernetes does", () => {
    expect(toTimestamp(1_767_225_600_999)).toBe("2026-01-01T00:00:00Z");
  });
});
