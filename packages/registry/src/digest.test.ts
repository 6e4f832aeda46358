import { expect, it } from "vitest";
import { digestOf, hasDigest, isCheckable } from "./digest.ts";

const bytes = Buffer.from("berth");

it.each(["sha256", "sha384", "sha512"])("bytes are checked by a digest of %s", (algorithm) => {
  const digest = digestOf(bytes, algorithm);
  expect(hasDigest(bytes, digest)).toBe(true);
  expect(hasDigest(Buffer.from("other"), digest)).toBe(false);
});

it.each([
  "",
  "sha256",
  "sha256:",
  `sha256:${"a".repeat(63)}`,
  `sha256:${"A".repeat(64)}`,
  `md5:${"a".repeat(32)}`,
  `${digestOf(bytes)}:x`,
])("a digest of %j cannot be checked", (digest) => {
  expect(isCheckable(digest)).toBe(false);
  expect(hasDigest(bytes, digest)).toBe(false);
});
