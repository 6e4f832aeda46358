import { describe, expect, it } from "vitest";
import { type RegistryRequest, RequestLog, readRequest } from "./request-log.ts";

it.each([
  ["/v2/", { kind: "ping", repository: "", reference: "" }],
  ["/v2/a/manifests/1", { kind: "manifest", repository: "a", reference: "1" }],
  ["/v2/a/b/manifests/sha256:00", { kind: "manifest", repository: "a/b", reference: "sha256:00" }],
  ["/v2/a/blobs/b/blobs/sha256:00", { kind: "blob", repository: "a/blobs/b", reference: "sha256:00" }],
  ["/v2/a/blobs/uploads/", { kind: "upload", repository: "a", reference: "" }],
  ["/v2/a/blobs/uploads/id?digest=x", { kind: "upload", repository: "a", reference: "id" }],
  ["/v2/a/tags/list?n=2", { kind: "tags", repository: "a", reference: "" }],
  ["/v2/a/referrers/sha256:00", { kind: "referrers", repository: "a", reference: "sha256:00" }],
  ["/v2/_catalog", { kind: "other", repository: "", reference: "" }],
  ["/token?scope=x", { kind: "other", repository: "", reference: "" }],
])("readRequest takes %s for what it is", (path, expected) => {
  expect(readRequest("GET", path, {})).toMatchObject({ ...expected, path });
});

it("readRequest keeps the user of a credential and no secret", () => {
  const basic = `Basic ${Buffer.from("ada:se:cret").toString("base64")}`;
  const read = readRequest("GET", "/v2/", { authorization: basic });
  expect(read).toMatchObject({ credential: "basic", user: "ada" });
  const token = readRequest("GET", "/v2/", { authorization: "Bearer t0ken" });
  expect(token).toMatchObject({ credential: "bearer", user: "" });
  expect(JSON.stringify([read, token])).not.toMatch(/se:cret|t0ken/);
});

describe("RequestLog", () => {
  const asked = (path: string): Omit<RegistryRequest, "status"> => readRequest("GET", path, {});

  it("gives what was asked since a mark, with the status as it was then", () => {
    const log = new RequestLog();
    log.add(asked("/v2/a/manifests/1"))(200);
    const mark = log.mark();
    const note = log.add(asked("/v2/b/manifests/1"));
    const before = log.entriesSince(mark);
    note(404);
    expect(before.map(({ repository, status }) => [repository, status])).toEqual([["b", 0]]);
    expect(log.countSince(mark, { status: 404 })).toBe(1);
    expect(log.countSince({ position: 0 })).toBe(2);
  });

  it("forgets the oldest when there are too many, and says so instead of counting wrong", () => {
    const log = new RequestLog();
    const early = log.mark();
    for (let at = 0; at < 199_999; at++) log.add(asked("/v2/"));
    expect(log.countSince(early)).toBe(199_999);
    log.add(asked("/v2/"));
    expect(() => log.countSince(early)).toThrow(RangeError);
    const late = log.mark();
    log.add(asked("/v2/a/manifests/1"));
    expect(log.tallySince(late)).toEqual([{ method: "GET", kind: "manifest", repository: "a", count: 1 }]);
  });
});
