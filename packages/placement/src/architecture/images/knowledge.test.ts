import { RegistryError, type RegistryFailureKind } from "@berth/registry";
import { describe, expect, it } from "vitest";
import { type CredentialProblems, scopeOf, toKnowledge } from "./knowledge.ts";

const NAME = "ghcr.io/team/app:1";
const failed = (
  kind: RegistryFailureKind,
  problems: CredentialProblems = {},
): ReturnType<typeof toKnowledge> => {
  const error = new RegistryError(kind, "it failed", { registry: "ghcr.io" });
  return toKnowledge(NAME, { state: "failed", error, at: 1, retryAt: 2 }, problems);
};

describe("what the rules are told", () => {
  it.each([
    ["notFound", "ImageNotFound"],
    ["unauthorized", "RegistryUnauthorized"],
    ["forbidden", "RegistryForbidden"],
    ["rateLimited", "RegistryRateLimited"],
    ["unreachable", "RegistryUnreachable"],
    ["serverError", "RegistryFailed"],
    ["malformed", "ImageMalformed"],
    ["suspended", "RegistrySuspended"],
  ] as const)("of %s is %s, and when to look again", (kind, reason) => {
    expect(failed(kind)).toEqual({ state: "failed", name: NAME, reason, message: "it failed", retryAt: 2 });
  });

  it("of an artifact is that it has no platform, and of a question that was given up nothing", () => {
    expect(failed("noPlatform")).toEqual({ state: "known", name: NAME, platforms: [] });
    expect(failed("aborted")).toEqual({ state: "unknown", name: NAME });
  });

  it("names pull secrets that could not be read where these may be why, the first of them", () => {
    const problems = { secrets: ["a", "b", "c", "d", "e"], programs: [] };
    for (const kind of ["unauthorized", "forbidden", "notFound"] as const) {
      const message = "it failed; a; b; c; and 2 more";
      expect(failed(kind, problems)).toMatchObject({ reason: "PullSecretUnreadable", message });
    }
    expect(failed("unreachable", problems)).toMatchObject({
      reason: "RegistryUnreachable",
      message: "it failed",
    });
  });

  it("names programs that gave no credentials before them", () => {
    const problems = { secrets: ["a"], programs: ["the credential provider ecr failed (exit code 1)"] };
    expect(failed("unauthorized", problems)).toMatchObject({
      reason: "CredentialProviderFailed",
      message: "it failed; the credential provider ecr failed (exit code 1); a",
    });
    expect(failed("rateLimited", problems)).toMatchObject({ reason: "RegistryRateLimited" });
  });
});

it("a refusal is shared by pods with the same credentials only", () => {
  const access = { namespace: "a", serviceAccount: "x", secrets: ["one", "two"] };
  const same = scopeOf(access);
  expect(scopeOf({ ...access, serviceAccount: "y", secrets: ["two", "one", "two"] })).toBe(same);
  const none = scopeOf({ ...access, secrets: [] });
  const others = [
    same,
    none,
    scopeOf({ ...access, namespace: "b" }),
    scopeOf({ ...access, secrets: ["one"] }),
    scopeOf({ ...access, serviceAccount: "y", secrets: [] }),
  ];
  expect(new Set(others).size).toBe(others.length);
});
