import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseGoDuration, parseHelperAnswer, parseProviderAnswer } from "./plugin-answer.ts";

const VERSION = "credentialprovider.kubelet.k8s.io/v1";
const SECRET = "s3cret";
const bytes = (value: unknown): Buffer =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
const auth = { "*.example": { username: "aws", password: SECRET } };
const response = (more: object): unknown => ({
  apiVersion: VERSION,
  kind: "CredentialProviderResponse",
  cacheKeyType: "Registry",
  auth,
  ...more,
});
const entries = [{ host: "*.example", path: "", credential: { username: "aws", password: SECRET } }];

describe("a credential provider", () => {
  it.each<[object, object]>([
    [{}, { cacheKey: "Registry" }],
    [{ cacheDuration: null }, { cacheKey: "Registry" }],
    [{ cacheDuration: "0s" }, { cacheKey: "Registry", cacheMs: 0 }],
    [
      { cacheDuration: "12h0m0s", cacheKeyType: "Global" },
      { cacheKey: "Global", cacheMs: 43_200_000 },
    ],
  ])("answers with %j", (more, expected) => {
    const config = { entries, problems: [] };
    expect(parseProviderAnswer(bytes(response(more)), VERSION)).toEqual({ config, ...expected });
  });

  it("without a credential gives none", () => {
    const config = { entries: [], problems: [] };
    const expected = { config, cacheKey: "Registry" };
    expect(parseProviderAnswer(bytes(response({ auth: undefined })), VERSION)).toEqual(expected);
  });

  it.each<[string, unknown, string]>([
    ["no JSON", `${SECRET}{`, "answers with what is no JSON"],
    ["another version", response({ apiVersion: `${VERSION}alpha1` }), "no CredentialProviderResponse of"],
    ["another kind", response({ kind: SECRET }), "no CredentialProviderResponse of"],
    ["no key", response({ cacheKeyType: SECRET }), "a cacheKeyType that is not"],
    ["no duration", response({ cacheDuration: SECRET }), "a cacheDuration that is no duration"],
    ["a number as duration", response({ cacheDuration: 5 }), "a cacheDuration that is no duration"],
    ["a list", response({ auth: [SECRET] }), "an auth that is no object"],
  ])("that answers with %s has a fault, which quotes nothing", (_, answer, expected) => {
    const parsed = parseProviderAnswer(bytes(answer), VERSION);
    expect(parsed).toEqual({ fault: expect.stringContaining(expected) });
    expect(JSON.stringify(parsed)).not.toContain(SECRET);
  });

  it("gives names and passwords only", () => {
    const extra = { "a.example": { username: "u", password: "p", registrytoken: SECRET, auth: "x" } };
    expect(parseProviderAnswer(bytes(response({ auth: extra })), VERSION)).toMatchObject({
      config: { entries: [{ host: "a.example", credential: { username: "u", password: "p" } }] },
    });
    expect(JSON.stringify(parseProviderAnswer(bytes(response({ auth: extra })), VERSION))).not.toContain(
      SECRET,
    );
  });

  it("is read whatever it prints", () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string()), (text) => {
        expect(parseProviderAnswer(bytes(text), VERSION)).toHaveProperty("fault");
      }),
    );
  });
});

describe("a credential helper", () => {
  it.each([
    [
      { Username: "me", Secret: SECRET },
      { username: "me", password: SECRET },
    ],
    [{ Username: "<token>", Secret: SECRET }, { identityToken: SECRET }],
  ])("answers with %j", (answer, credential) => {
    expect(parseHelperAnswer(bytes(answer), "gcr.io", undefined)).toEqual({
      config: { entries: [{ host: "gcr.io", path: "", credential }], problems: [] },
    });
  });

  it("that has no credential says so, which is no fault", () => {
    const none = { config: { entries: [], problems: [] } };
    const text = bytes("credentials not found in native keychain\n");
    expect(parseHelperAnswer(text, "gcr.io", "failed (exit code 1)")).toEqual(none);
    expect(parseHelperAnswer(bytes(SECRET), "gcr.io", "failed (exit code 1)")).toEqual({
      fault: "failed (exit code 1)",
    });
    expect(parseHelperAnswer(bytes(SECRET), "gcr.io", undefined)).toEqual({
      fault: "answers with what is no JSON",
    });
  });
});

it.each<[string, number | undefined]>([
  ["0", 0],
  ["0s", 0],
  ["1.5h", 5_400_000],
  ["1m30s", 90_000],
  ["250ms", 250],
  ["-5m", undefined],
  ["5", undefined],
  ["5 m", undefined],
  ["1e9h", undefined],
  ["", undefined],
])("the duration %j of Go is %s ms", (text, expected) => expect(parseGoDuration(text)).toBe(expected));
