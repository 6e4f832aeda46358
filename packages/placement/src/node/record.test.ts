import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MarkId } from "./mark.ts";
import {
  hasClusterMarks,
  MAX_RECORD_BYTES,
  type MarkRecord,
  ownedMarks,
  parseRecord,
  type RecordedMark,
  recordOf,
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
    ["{", "it is not JSON"],
    ["[]", "it is not a JSON object"],
    ["null", "it is not a JSON object"],
    ['{"v":2,"by":"berth","marks":{}}', "its version 2 is newer than 1"],
    ['{"v":0,"by":"berth","marks":{}}', "it has no known version"],
    ['{"v":"2","by":"berth","marks":{}}', "it has no known version"],
    ['{"by":"berth","marks":{}}', "it has no known version"],
    ['{"v":1,"marks":{}}', "it names no installation"],
    ['{"v":1,"by":"","marks":{}}', "it names no installation"],
    ['{"v":1,"by":"berth","marks":[]}', "it holds no marks"],
    ...[
      "1",
      '{"r":"y","since":"s"}',
      '{"c":"","r":"y","since":"s"}',
      '{"c":"x","since":"s"}',
      '{"c":"x","r":"","since":"s"}',
      '{"c":"x","r":"y"}',
      '{"c":"x","r":"y","since":"s","by":""}',
      '{"c":"x","r":"y","since":"s","by":1}',
    ].map((it) => [
      `{"v":1,"by":"berth","marks":{"label/a":${it}}}`,
      'its entry "label/a" is not understood',
    ]),
    [
      '{"v":1,"by":"berth","marks":{"toleration/a":{"c":"x","r":"y","since":"s"}}}',
      'its entry "toleration/a" is not understood',
    ],
  ])("%s is unreadable, with the reason", (given, problem) => {
    expect(parseRecord(given)).toEqual({ state: "unreadable", problem });
  });

  it("is read up to its bound, and no longer", () => {
    const longest = '{"v":1,"by":"berth","marks":{}}'.padEnd(MAX_RECORD_BYTES);
    expect(MAX_RECORD_BYTES).toBe(65_536);
    expect(parseRecord(longest).state).toBe("read");
    const problem = "it is longer than 65536 bytes";
    expect(parseRecord(`${longest} `)).toEqual({ state: "unreadable", problem });
  });

  it("of a node is its annotation", () => {
    const annotations = { "berth.dev/marks": '{"v":1,"by":"b","marks":{}}' };
    expect(recordOf({ metadata: { annotations } })).toMatchObject({ state: "read", record: { by: "b" } });
    expect(recordOf({ metadata: { annotations: { "example.com/marks": "{}" } } })).toEqual({
      state: "absent",
    });
    expect(recordOf({})).toEqual({ state: "absent" });
  });

  it("tells of marks for documents of the cluster, by installation and capability", () => {
    const has = (mark: Partial<RecordedMark>): boolean => {
      const marks = new Map<MarkId, RecordedMark>([
        ["label/other", { ...entry, by: "other" }],
        ["label/a", { ...entry, ...mark }],
      ]);
      const text = stringifyRecord({ by: "berth", marks }) ?? "";
      const nodes = [{}, { metadata: { annotations: { "berth.dev/marks": text } } }];
      return hasClusterMarks(nodes, { installation: "berth", capability: "labels" });
    };
    expect(has({ rule: "cluster/x" })).toBe(true);
    expect(has({ rule: "config/x" })).toBe(false);
    expect(has({ rule: "cluster/x", capability: "gates" })).toBe(false);
    expect(has({ rule: "cluster/x", by: "third" })).toBe(false);
    expect(hasClusterMarks([{}], { installation: "berth", capability: "labels" })).toBe(false);
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
    const all = {
      state: "read",
      record: { by: "berth", marks: new Map([["label/a", entry]] as const) },
    } as const;
    expect(ownedMarks(all, "berth")).toBe(all.record.marks);
    expect(ownedMarks(all, "other")).toBe(ownedMarks({ state: "absent" }, "other"));
  });

  it("writes times in whole seconds, as Kubernetes does", () => {
    expect(toTimestamp(1_767_225_600_999)).toBe("2026-01-01T00:00:00Z");
  });
});
