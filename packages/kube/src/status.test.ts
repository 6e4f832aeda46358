import { describe, expect, it } from "vitest";
import type { ApiFailure, RequestInfo } from "./failure.ts";
import { fromStatusObject, toFailure } from "./status.ts";

const request: RequestInfo = { verb: "patch", resource: "nodes", name: "n1" };
const ofUid = { field: "metadata.uid", reason: "FieldValueInvalid", message: "field is immutable" };
const ofLabel = { field: "metadata.labels", reason: "FieldValueInvalid", message: "too long" };

it.each<[number, Parameters<typeof toFailure>[1], ApiFailure]>([
  [400, {}, { kind: "invalid", causes: [] }],
  [401, {}, { kind: "unauthorized" }],
  [403, {}, { kind: "forbidden" }],
  [403, { message: 'nodes "a" is forbidden: User "b" cannot patch' }, { kind: "forbidden" }],
  [403, { message: 'nodes is forbidden: User "b" cannot list resource "nodes"' }, { kind: "forbidden" }],
  [403, { message: "access denied by the proxy" }, { kind: "forbidden" }],
  [403, { message: 'pods "a" is forbidden: exceeded quota: q' }, { kind: "forbidden", ofObject: true }],
  [403, { message: 'admission webhook "b" denied the request' }, { kind: "forbidden", ofObject: true }],
  [404, {}, { kind: "notFound" }],
  [405, {}, { kind: "unsupported" }],
  [409, { reason: "AlreadyExists" }, { kind: "alreadyExists" }],
  [409, { reason: "Conflict" }, { kind: "conflict", causes: [] }],
  [409, {}, { kind: "conflict", causes: [] }],
  [410, {}, { kind: "expired" }],
  [415, {}, { kind: "unsupported" }],
  [422, { details: { causes: [ofUid] } }, { kind: "uidMismatch" }],
  [422, { details: { causes: [ofUid, ofLabel] } }, { kind: "invalid", causes: [ofUid, ofLabel] }],
  [422, {}, { kind: "invalid", causes: [] }],
  [429, {}, { kind: "tooManyRequests", causes: [] }],
  [500, {}, { kind: "serverError", status: 500 }],
  [500, { reason: "Expired" }, { kind: "expired" }],
  [502, {}, { kind: "serverError", status: 502 }],
  [302, {}, { kind: "serverError", status: 302 }],
])("toFailure %i with %j is %j", (code, status, failure) => {
  expect(toFailure(code, status)).toEqual(failure);
});

describe("fromStatusObject", () => {
  it("reads the Status of an ERROR event", () => {
    const error = fromStatusObject(
      { kind: "Status", code: 410, reason: "Expired", message: "too old resource version: 1 (7)" },
      request,
    );
    expect(error.failure).toEqual({ kind: "expired" });
    expect(error.retry).toBe("refresh");
    expect(error.message).toBe(
      'patch nodes "n1": the server no longer holds that version: too old resource version: 1 (7)',
    );
  });

  it("takes the wait from details when there is no header", () => {
    expect(fromStatusObject({ code: 429, details: { retryAfterSeconds: 3 } }, request).retryAfterMs).toBe(
      3000,
    );
    expect(fromStatusObject({ code: 429, details: { retryAfterSeconds: 0 } }, request).retryAfterMs).toBe(
      undefined,
    );
  });

  it.each([null, "text", 7, {}])("makes a server error of %j", (object) => {
    expect(fromStatusObject(object, request).failure).toEqual({ kind: "serverError", status: 500 });
  });
});
