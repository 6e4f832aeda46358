import type { StoredFact } from "@berth/registry";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../../runtime/src/testing/property.ts";
import {
  countFor,
  isSameButForDates,
  MAX_SHARD_BYTES,
  MAX_SHARDS,
  readShard,
  toShards,
} from "./fact-shards.ts";

const fact = (name: string, more: Partial<StoredFact> = {}): StoredFact => ({
  name,
  digest: `sha256:${"a".repeat(64)}`,
  mediaType: "application/vnd.oci.image.index.v1+json",
  platforms: [{ os: "linux", architecture: "amd64" }],
  at: 1_767_225_600_000,
  ...more,
});

const many = (count: number): readonly StoredFact[] =>
  Array.from({ length: count }, (_, at) => fact(`registry.example/team/app-${at}:1`, { at }));

const allOf = (shards: readonly (string | undefined)[]): readonly StoredFact[] =>
  shards.flatMap((shard) => readShard(shard ?? "").facts);

const text = fc.string({ minLength: 1 });
const anyPlatform = fc.record(
  { os: text, architecture: text, variant: text, osVersion: text },
  { requiredKeys: ["os", "architecture"] },
);

const anyFact: fc.Arbitrary<StoredFact> = fc.record(
  {
    name: fc.string({ unit: "binary", maxLength: 60 }),
    digest: fc.string(),
    mediaType: fc.string(),
    at: fc.maxSafeNat(),
    platforms: fc.array(anyPlatform, { maxLength: 4 }),
    isBundle: fc.constant<true>(true),
  },
  { requiredKeys: ["name", "digest", "mediaType", "at", "platforms"] },
);

describe("facts in texts", () => {
  const run = seededRun(100, process.env);
  it(`are the same on other dates, and by nothing else (${run.name})`, run.options, () => {
    fc.assert(
      fc.property(anyFact, anyFact, fc.maxSafeNat(), (one, other, at) => {
        const [text = "", dated = "", another = ""] = [one, { ...one, at }, other].flatMap((it) =>
          toShards([it]),
        );
        expect(isSameButForDates(text, dated)).toBe(true);
        const isOther = toShards([{ ...other, at: one.at }])[0] !== text;
        expect(isSameButForDates(text, another)).toBe(!isOther);
      }),
      run.parameters,
    );
  });

  const facts = fc.uniqueArray(anyFact, { selector: ({ name }) => name });
  it(`are read as they were, and written alike in every order (${run.name})`, run.options, () => {
    fc.assert(
      fc.property(facts, fc.constantFrom(1, 2, 8), (some, least) => {
        const shards = toShards(some, least);
        expect(shards).toHaveLength(least);
        expect(new Set(allOf(shards))).toEqual(new Set(some));
        expect(toShards(some.toReversed(), least)).toEqual(shards);
      }),
      run.parameters,
    );
  });

  it("are a line each that a person can read", () => {
    const windows = { os: "windows", architecture: "amd64", osVersion: "10.0.20348.2031" };
    const arm = { os: "linux", architecture: "arm", variant: "v7" };
    expect(toShards([fact("docker.io/library/a:1", { platforms: [arm, windows] })])).toEqual([
      `{"name":"docker.io/library/a:1","digest":"sha256:${"a".repeat(64)}","mediaType":"application/vnd.oci.image.index.v1+json","at":1767225600000,"platforms":[["linux","arm","v7"],["windows","amd64","","10.0.20348.2031"]]}\n`,
    ]);
  });

  it("are spread over more texts when there are many, and stay where they are while there is room", () => {
    const few = many(100);
    expect(toShards(few)).toHaveLength(1);
    const lots = toShards(many(4000));
    expect(lots.length).toBeGreaterThan(2);
    expect(allOf(lots)).toHaveLength(4000);
    expect(toShards(few, lots.length)).toHaveLength(lots.length);
  });

  it("never exceed their bounds: the oldest are left out", () => {
    const facts = many(30_000);
    const shards = toShards(facts);
    expect(shards).toHaveLength(MAX_SHARDS);
    for (const text of shards) expect(Buffer.byteLength(text ?? "")).toBeLessThanOrEqual(MAX_SHARD_BYTES);
    const kept = new Set(allOf(shards).map(({ name }) => name));
    expect(kept.size).toBeGreaterThan(10_000);
    expect(kept.has("registry.example/team/app-29999:1")).toBe(true);
    expect(kept.has("registry.example/team/app-0:1")).toBe(false);
  });

  it(`are told from garbage (${run.name})`, run.options, () => {
    const good = toShards([fact("docker.io/library/a:1")])[0] ?? "";
    const bad = [
      "garbage",
      "null",
      "[]",
      "{}",
      '{"name":"a","digest":"b","mediaType":"c","at":"1","platforms":[]}',
      '{"name":"a","digest":"b","mediaType":"c","at":1,"platforms":[["linux"]]}',
      '{"name":"a","digest":"b","mediaType":"c","at":1,"platforms":[["linux",7]]}',
      '{"__proto__":{"name":"a"},"at":1}',
      "[".repeat(50_000),
    ];
    const read = { facts: [fact("docker.io/library/a:1")], garbage: bad.length };
    expect(readShard([...bad, "", good].join("\n"))).toEqual(read);
    const none = fc.property(fc.string(), (garbage) => {
      expect(readShard(garbage).facts).toEqual([]);
    });
    fc.assert(none, run.parameters);
  });
});

it("knows how many texts there were by the last of them", () => {
  expect([0, 1, 2, 3, 7, 8, 15, 99].map(countFor)).toEqual([1, 2, 4, 4, 8, 16, 16, 16]);
});
