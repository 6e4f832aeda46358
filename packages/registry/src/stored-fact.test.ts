import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseReference } from "./reference.ts";
import { factName, parseStoredFact } from "./stored-fact.ts";
import { aDigest, imageFacts } from "./testing/scripted-reader.ts";

const digest = aDigest("a");
const on = (architecture: string): object => ({ os: "linux", architecture });
const fact = {
  name: "docker.io/library/nginx:1",
  ...imageFacts(digest, ["amd64", "arm64"]),
  at: 1_767_225_600_000,
};

it.each([
  ["nginx", "docker.io/library/nginx:latest"],
  ["index.docker.io/library/nginx:latest", "docker.io/library/nginx:latest"],
  [`nginx@${digest}`, `docker.io/library/nginx@${digest}`],
  [`nginx:1.25@${digest}`, `docker.io/library/nginx@${digest}`],
])("factName %s: %s", (image, name) => {
  expect(factName(parseReference(image))).toBe(name);
});

describe("parseStoredFact", () => {
  it("takes what was written, and nothing besides", () => {
    expect(parseStoredFact({ ...fact, more: "fields" })).toEqual(fact);
    const windows = { os: "windows", architecture: "amd64", osVersion: "10.0.20348.2227" };
    const arm = { os: "linux", architecture: "arm", variant: "v7" };
    const byDigest = { ...fact, name: `a.io/b@${digest}`, platforms: [windows, arm] };
    expect(parseStoredFact(byDigest)).toEqual(byDigest);
    expect(parseStoredFact({ ...fact, platforms: [] })).toEqual({ ...fact, platforms: [] });
    expect(parseStoredFact({ ...fact, isBundle: true })).toEqual({ ...fact, isBundle: true });
    expect(parseStoredFact({ ...fact, isBundle: "yes" })).toEqual(fact);
  });

  it.each([
    ["nothing", undefined],
    ["null", null],
    ["text", "fact"],
    ["a list", [fact]],
    ["a name that is not in full", { ...fact, name: "nginx" }],
    ["a name that is none", { ...fact, name: "NGINX" }],
    ["a name with tag and digest", { ...fact, name: `a.io/b:1@${digest}` }],
    ["a name of another digest", { ...fact, name: `a.io/b@${aDigest("b")}` }],
    ["no digest", { ...fact, digest: undefined }],
    ["a digest that is none", { ...fact, digest: "sha256:1" }],
    ["a media type with a line break", { ...fact, mediaType: "a/b\nc" }],
    ["no date", { ...fact, at: undefined }],
    ["a date that is text", { ...fact, at: "2026-01-01" }],
    ["a date before 1970", { ...fact, at: -1 }],
    ["no platforms", { ...fact, platforms: undefined }],
    ["1,001 platforms", { ...fact, platforms: Array.from({ length: 1_001 }, (_, at) => on(`a${at}`)) }],
    ["a platform twice", { ...fact, platforms: [...fact.platforms, ...fact.platforms] }],
    ["a platform without an architecture", { ...fact, platforms: [{ os: "linux" }] }],
    ["a platform without an os", { ...fact, platforms: [{ architecture: "amd64" }] }],
    ["an architecture that no label can hold", { ...fact, platforms: [on("a b")] }],
    ["an architecture by another name", { ...fact, platforms: [on("x86_64")] }],
    ["a variant that says nothing", { ...fact, platforms: [{ ...on("arm64"), variant: "v8" }] }],
    ["a platform that is none", { ...fact, platforms: [null] }],
  ])("refuses %s", (_, value) => {
    expect(parseStoredFact(value)).toBeUndefined();
  });

  it("never throws, and takes only what it would write again", () => {
    const fields = fc.record(
      {
        name: fc.oneof(fc.constant(fact.name), fc.string()),
        digest: fc.oneof(fc.constant(digest), fc.string()),
        mediaType: fc.oneof(fc.constant(fact.mediaType), fc.string()),
        platforms: fc.oneof(fc.constant(fact.platforms), fc.array(fc.jsonValue())),
        at: fc.oneof(fc.integer(), fc.double(), fc.string()),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(fields, fc.jsonValue()), (value) => {
        const parsed = parseStoredFact(value);
        expect(parsed === undefined ? undefined : parseStoredFact(parsed)).toEqual(parsed);
      }),
      { numRuns: 500 },
    );
  });
});
